"""A Kubernetes operator for RocketMQ: custom resources in, broker groups that fail over out."""
