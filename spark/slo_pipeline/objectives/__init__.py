"""What was promised, in OpenSLO's words: one YAML, its checks, and what it is exported to. No Spark here."""
