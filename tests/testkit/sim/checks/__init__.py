"""Observations from outside, and the invariants that they must satisfy."""
