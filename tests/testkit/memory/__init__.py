"""What the operator looks at, in memory: Kubernetes, controllers, brokers, canaries, companions."""
