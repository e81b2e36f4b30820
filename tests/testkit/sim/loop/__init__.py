"""Virtual time and the network in memory."""
