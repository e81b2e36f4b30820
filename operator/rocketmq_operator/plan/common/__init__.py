"""What all plans share: steps, Kubernetes objects, names, and parts of children."""
