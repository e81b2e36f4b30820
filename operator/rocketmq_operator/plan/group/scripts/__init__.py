"""Start scripts of pods, and the guard in them."""
