"""Parts of a RocketMQCluster."""
