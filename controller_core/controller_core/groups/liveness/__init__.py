"""Which brokers one controller believes alive, and which groups need an election; not in the log."""
