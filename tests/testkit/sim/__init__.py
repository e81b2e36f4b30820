"""Seeded simulation: many schedules of failures in little time, each reproducible from one number."""
