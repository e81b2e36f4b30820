"""The custom resources: models of their specs and statuses, and the definitions that Kubernetes is given."""
