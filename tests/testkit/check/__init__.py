"""Checkers: given what was seen from outside, say whether it can have been right."""
