"""Clients outside the pods of the cluster: their listener, their load, and load balancers for them."""
