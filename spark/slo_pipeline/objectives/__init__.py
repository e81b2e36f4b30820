"""The objectives as OpenSLO YAML: the model, its checks, and its exports. No Spark here."""
