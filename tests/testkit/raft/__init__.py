"""Raft nodes, their log's disk, and the groups' state machine, with a second, simple implementation."""
