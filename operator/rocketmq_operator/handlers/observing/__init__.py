"""What a pass looks at: each resource, its names, and why its pods are missing."""
