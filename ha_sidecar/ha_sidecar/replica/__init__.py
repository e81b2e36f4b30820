"""`ha-sidecar replica`: a log-only replica that follows the master and serves its log."""
