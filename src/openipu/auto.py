"""`openipu.auto`: the automatic split, by its short name."""

from openipu.explore.auto import Layout, Limits, Split, Stage, apply_split, find_split, split_program

__all__ = ["Layout", "Limits", "Split", "Stage", "apply_split", "find_split", "split_program"]
