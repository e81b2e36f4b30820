"""The controller process: everything around the cores that does I/O, one folder for each concern."""
