"""The learners of a group: objects and steps."""
