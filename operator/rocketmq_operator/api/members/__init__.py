"""Members of a broker group that are not like the others: learners, and static roles."""
