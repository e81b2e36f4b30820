"""Apache RocketMQ's own processes and clients."""
