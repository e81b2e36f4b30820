"""Segments and reports of a known story."""
