"""RocketMQ's remoting protocol as pure values: frames, codes, headers, bodies; no socket, no clock."""
