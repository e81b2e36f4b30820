"""Masters of broker groups: heartbeats, elections, write guards, role notices to brokers."""
