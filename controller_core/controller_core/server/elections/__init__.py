"""The leader's own elections: heartbeats and deaths of brokers, and the wait before a first election."""
