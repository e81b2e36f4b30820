"""TLS: certificates in files, how a process dials, and sockets without an event loop."""
