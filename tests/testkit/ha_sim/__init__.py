"""A simulated group of our own replicas: real machines, stores and recovery on failing disks and wires."""
