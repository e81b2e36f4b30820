"""Rows to segments on the disk: bounded buffers, whole files."""
