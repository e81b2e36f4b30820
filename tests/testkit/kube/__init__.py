"""A real Kubernetes in tests: kubectl and helm, faults, and an unmodified Java client in a pod of its own."""
