"""Commit logs, and both ends of an HA connection: ours, Java's, and by hand."""
