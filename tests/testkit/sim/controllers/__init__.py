"""Whole controllers in simulated processes, and their answers."""
