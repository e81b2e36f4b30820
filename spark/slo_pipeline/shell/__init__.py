"""What every command shares: options, exit codes, the clock, the HTTP port, ending at a signal."""
