"""How the operator speaks to Kubernetes and to the controllers."""
