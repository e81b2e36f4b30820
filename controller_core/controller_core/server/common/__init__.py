"""Metrics, JSON views, HTTP error answers and questions to brokers, which several folders use."""
