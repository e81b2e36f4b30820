"""Certificates of a cluster: which must exist, and when they change."""
