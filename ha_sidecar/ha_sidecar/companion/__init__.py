"""`ha-sidecar companion`: a process beside an unmodified broker that shows, fences, hands over and holds clients."""
