"""Gradients of functions: TensorFlow's own, because a function's ops stand in the graph as they are."""
