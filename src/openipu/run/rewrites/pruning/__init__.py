"""Rows that are read alone are computed alone: the first token of a transformer's last layer, and its gradient."""

from openipu.run.rewrites.pruning.prune import prune_rows

__all__ = ["prune_rows"]
