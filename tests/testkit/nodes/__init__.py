"""Nodes of Kubernetes, as far as their network goes."""
