"""Losses that are more than a few ops: what `ipu.nn_ops` offers of them."""
