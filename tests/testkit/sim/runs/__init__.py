"""A whole installation under faults: its parts, schedules and totals."""
