"""Padding to one length. A collator that pads each batch to its longest example would make a new shape every time.

In: a collator and datasets. Out: the collator, or a copy of it that pads to the longest example of all.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sized
from typing import Any

from optimum.utils import logging

logger = logging.get_logger(__name__)

_GRAIN = 8
_LENGTHS = ("input_ids", "labels", "decoder_input_ids")


def fix_padding(collator: Any, datasets: Iterable[Any]) -> Any:
    """A collator of Transformers that pads to the longest of a batch becomes one that pads to one length."""
    if getattr(collator, "padding", None) not in (True, "longest") or not hasattr(collator, "tokenizer"):
        return collator
    longest = max((find_longest(dataset) for dataset in datasets if dataset is not None), default=0)
    if longest == 0:
        return collator
    limit = getattr(collator, "max_length", None) or -(-longest // _GRAIN) * _GRAIN
    fixed = copy.copy(collator)
    fixed.padding, fixed.max_length = "max_length", limit
    logger.info("Batches are padded to %d tokens: a compiled model takes one shape only.", limit)
    return fixed


def find_longest(dataset: Any) -> int:
    """Tokens of the longest example; 0 where examples are no dictionaries of sequences, or cannot be looked at."""
    columns = getattr(dataset, "column_names", None)
    if columns is not None and hasattr(dataset, "with_format"):
        names = [name for name in _LENGTHS if name in columns]
        rows = (row for name in names for row in dataset.with_format(None)[name])
        return max((len(row) for row in rows if isinstance(row, Sized)), default=0)
    if not hasattr(dataset, "__getitem__") or not isinstance(dataset, Sized):
        return 0
    longest = 0
    for index in range(len(dataset)):
        example = dataset[index]
        if not hasattr(example, "keys"):
            return 0
        found = (example[name] for name in _LENGTHS if name in example)
        longest = max([longest, *(len(value) for value in found if isinstance(value, Sized))])
    return longest
