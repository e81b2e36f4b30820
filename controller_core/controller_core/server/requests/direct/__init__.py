"""Requests that wait without a task of their own."""
