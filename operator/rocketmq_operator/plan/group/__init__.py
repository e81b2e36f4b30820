"""The plan of a BrokerGroup: its members, who is master, and the record of its failovers."""
