"""What a failover on the cluster is made of, as watched from outside."""
