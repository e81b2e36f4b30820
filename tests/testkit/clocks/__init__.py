"""Event loops and clocks that a test controls."""
