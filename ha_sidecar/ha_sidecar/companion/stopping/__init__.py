"""What stops a broker in time: the fence and the write lease."""
