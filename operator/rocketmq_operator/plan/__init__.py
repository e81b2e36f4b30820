"""What to do next: pure functions of the custom resources and of what was observed."""
