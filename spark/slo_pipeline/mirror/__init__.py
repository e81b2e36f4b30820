"""Segments in two places: a directory and a bucket, one kept like the other."""
