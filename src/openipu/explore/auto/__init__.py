"""Automatic split: stages, recomputation, memory proportions and micro-batch that fit and are fastest."""

from openipu.explore.auto.find import apply_split, find_split, scale_job, split_program
from openipu.explore.auto.schemes import Limits
from openipu.explore.auto.types import Keep, Layout, Segment, Split, Stage, StateHome

__all__ = [
    "Keep",
    "Layout",
    "Limits",
    "Segment",
    "Split",
    "Stage",
    "StateHome",
    "apply_split",
    "find_split",
    "scale_job",
    "split_program",
]
