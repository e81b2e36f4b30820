"""From the operator's own pod template to the one with a person's settings."""
