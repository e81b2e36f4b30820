"""The rules of each role: how a node becomes leader; what leaders and the others do with a message."""
