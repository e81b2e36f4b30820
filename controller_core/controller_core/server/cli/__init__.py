"""The command line `controller-core`: its commands, their HTTP client, a load generator."""
