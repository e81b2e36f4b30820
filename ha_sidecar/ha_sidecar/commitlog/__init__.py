"""A broker's log on disk: its files, its records, its recovery, and the epoch file beside it."""
