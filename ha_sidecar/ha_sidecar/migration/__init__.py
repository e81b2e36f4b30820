"""What `kubectl rmqha migrate` runs inside the cluster: survey, write permission, adoption of a store."""
