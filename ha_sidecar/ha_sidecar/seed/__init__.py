"""`ha-sidecar seed`: fills an empty broker's store from a member of its group."""
