"""The sections of a report, and the page they make."""
