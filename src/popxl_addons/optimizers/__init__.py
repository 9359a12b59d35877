"""Update rules as modules."""

from .adam import AdamOptimizerStep

__all__ = ["AdamOptimizerStep"]
