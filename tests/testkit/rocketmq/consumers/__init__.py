"""Consumers of tests: push, POP, and what they received."""
