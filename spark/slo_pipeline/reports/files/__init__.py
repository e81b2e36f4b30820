"""A report on the disk: its folder, its long lists, its summary, and the list of all reports."""
