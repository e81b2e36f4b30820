"""Commands on their way into the log, elections above all, and what follows a committed election."""
