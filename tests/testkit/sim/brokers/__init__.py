"""Modelled brokers."""
