"""Who becomes master of a group, what that changes, and write guards before a living master is replaced."""
