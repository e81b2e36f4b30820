"""Settings of a broker that change while it runs."""
