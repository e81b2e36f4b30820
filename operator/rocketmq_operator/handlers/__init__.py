"""The running operator: watches, carries out plans, moves addresses, shows its own health."""
