"""Connections between controllers: links, their frames and greetings, name resolution, refusals."""
