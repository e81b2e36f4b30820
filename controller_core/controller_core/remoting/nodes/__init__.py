"""Our own messages about nodes: heartbeats of node agents, questions between controllers, and the token."""
