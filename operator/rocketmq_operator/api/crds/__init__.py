"""CustomResourceDefinitions, generated from the models of the kinds."""
