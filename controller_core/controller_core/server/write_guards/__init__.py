"""Write guards: stop the writes of a living master before a switchover."""
