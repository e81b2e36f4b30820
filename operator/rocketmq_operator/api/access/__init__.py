"""Who may do what in the brokers of a cluster."""
