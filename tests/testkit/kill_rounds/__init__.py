"""Kill -9 of master, slave and log replica under load, round after round."""
