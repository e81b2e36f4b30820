"""Checkers: given observations from outside, say whether the observed behaviour can be correct."""
