"""The operator's decisions: pure functions of the custom resources and of the observations."""
