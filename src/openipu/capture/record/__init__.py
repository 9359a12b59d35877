"""Recording: ATen calls on meta tensors become an FX graph, with a note on every node."""
