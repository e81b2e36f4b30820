"""Decisions of replica and companion, without I/O: from answers to facts, from facts to what must be done."""
