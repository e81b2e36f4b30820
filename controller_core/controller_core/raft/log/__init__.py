"""The log as the core sees it: stable storage below, newer entries in memory above, sizes in bytes."""
