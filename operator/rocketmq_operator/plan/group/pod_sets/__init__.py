"""What all StatefulSets of a group share."""
