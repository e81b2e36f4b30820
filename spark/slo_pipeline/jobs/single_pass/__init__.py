"""The gold tables of a period by one pass over its segments, with numpy in Spark's tasks."""
