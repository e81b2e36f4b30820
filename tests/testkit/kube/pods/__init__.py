"""Pods of RocketMQ's own image: its clients, its tools, and load."""
