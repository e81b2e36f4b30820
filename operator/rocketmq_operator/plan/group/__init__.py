"""The plan of a BrokerGroup: its members, its master, and the record of its failovers."""
