"""Metrics, JSON views and HTTP error answers that several of the other folders use."""
