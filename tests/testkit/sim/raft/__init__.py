"""The Raft core alone: nodes, schedules and invariants."""
