"""Changes of master, of events in Python: what `transforms` says of frames."""
