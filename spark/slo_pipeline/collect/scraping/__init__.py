"""One target at a time: scrapes on a schedule, and streams of events."""
