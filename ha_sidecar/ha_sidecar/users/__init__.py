"""Users and rights of a broker, copied from its master."""
