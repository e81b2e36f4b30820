"""The repository itself, for tests of its code, texts and layout."""
