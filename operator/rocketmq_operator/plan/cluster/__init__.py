"""The plan of a RocketMQCluster: its controllers, name servers and proxies."""
