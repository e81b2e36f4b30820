"""The plan of an SLOReport: its jobs, and what their runs came to."""
