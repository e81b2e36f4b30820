"""A broker group of our own replicas, simulated: real machines, stores and recovery over disks and wires that fail."""
