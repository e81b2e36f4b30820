"""What people run from the tree: sizing, the reference of the kinds, and the written parts of the chart."""
