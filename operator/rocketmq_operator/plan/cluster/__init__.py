"""TODO: what is in this folder."""
