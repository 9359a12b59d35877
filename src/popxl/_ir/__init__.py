"""Graphs, ops and tensors as data, and what follows from them."""
