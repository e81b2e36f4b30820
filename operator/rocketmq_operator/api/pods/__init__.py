"""Settings of pods that every component has: a closed section, and an override of the rest."""
