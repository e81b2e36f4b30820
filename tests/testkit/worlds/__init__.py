"""The operator at work over a world in memory, until no step is left."""
