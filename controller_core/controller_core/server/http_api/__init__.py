"""The HTTP port: status, events and metrics; elections and membership changes that people ask for."""
