"""Changes of master: elections, their marks and phases, write gaps, and planned restarts."""
