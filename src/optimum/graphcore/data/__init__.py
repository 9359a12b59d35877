"""Batches of fixed shape: collators for models that are compiled once."""

from optimum.graphcore.data.data_collator import (
    DataCollatorForLanguageModelingWithMaxTokensMasked,
    pad_batch,
    pad_on_batch_axis,
)
from optimum.graphcore.data.static_shapes import find_longest, fix_padding

__all__ = [
    "DataCollatorForLanguageModelingWithMaxTokensMasked",
    "find_longest",
    "fix_padding",
    "pad_batch",
    "pad_on_batch_axis",
]
