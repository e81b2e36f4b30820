"""What the collector asks of Kubernetes: pods, Events, kubelets."""
