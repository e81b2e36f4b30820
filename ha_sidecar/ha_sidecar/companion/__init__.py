"""`ha-sidecar companion`.

A process beside an unmodified broker that shows, fences, hands over and holds clients.
"""
