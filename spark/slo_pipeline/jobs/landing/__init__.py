"""Import: history of other programs becomes segments."""
