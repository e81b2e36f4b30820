"""What tests and the demo share: real processes, the simulator, checkers, scenario environments."""
