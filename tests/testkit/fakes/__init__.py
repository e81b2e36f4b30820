"""Peers that a test plays by hand: brokers, controllers, an API server, a hundred pods."""
