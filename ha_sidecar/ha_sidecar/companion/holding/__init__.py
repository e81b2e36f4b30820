"""Holding: clients of a dead master wait until its successor serves them, and their sends go ahead."""
