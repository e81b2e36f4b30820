"""Groups whose brokers have static roles: steps and status."""
