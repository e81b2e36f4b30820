"""Role notices to brokers, their order, and addresses of HA ports."""
