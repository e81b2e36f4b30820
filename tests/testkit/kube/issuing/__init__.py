"""Those who sign certificates on a real Kubernetes."""
