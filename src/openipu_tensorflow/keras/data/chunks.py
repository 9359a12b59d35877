"""Data of an execution, a few batches at a time.

In: a data set of batches, and how many of them one execution takes. Out: `Chunks`: the same data set with so many
batches in one element as lie in memory together, and for each execution a source that the engine asks for its batches.
So an execution of a thousand steps holds a few megabytes of data and begins when the first of them are there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

import tensorflow as tf
from openipu_tensorflow.graphs.formats import to_torch

_CHUNK_BYTES = 4 << 20
_WIDENED = (tf.uint16, tf.uint32, tf.uint64)  # torch computes with none of these


@dataclass(frozen=True, eq=False)
class Chunks:
    """`dataset` has `size` batches in an element, on a dimension of their own if there is more than one."""

    dataset: Any
    size: int


def cut(dataset: Any, batches: int, ahead: int) -> Chunks:
    """`batches`: of one execution; `ahead`: so many at least are made ready before they are asked for."""
    flat = tf.nest.flatten(dataset.element_spec)
    batch_bytes = sum(spec.shape.num_elements() * spec.dtype.size for spec in flat)
    most = max(1, _CHUNK_BYTES // max(1, batch_bytes))
    size = max(number for number in range(1, min(most, batches) + 1) if batches % number == 0)
    if size > 1:
        dataset = dataset.batch(size, drop_remainder=True)
    return Chunks(dataset.prefetch(max(2, math.ceil(ahead / size))), size)


class ChunkSource:
    """The batches of one execution, in order."""

    def __init__(self, iterator: Any, size: int) -> None:
        self._iterator, self._size = iterator, size
        self._held: list[torch.Tensor] = []
        self._next = 0  # number of the first batch that is not taken from the iterator

    def take(self, first: int, count: int) -> Sequence[torch.Tensor]:
        """Batches from number `first` on, behind one another: views, unless they lie in several chunks."""
        found: list[list[torch.Tensor]] = []
        while count:
            if first >= self._next:
                self._held = [lend(tensor) for tensor in tf.nest.flatten(next(self._iterator))]
                self._next += self._size
            start = first - (self._next - self._size)
            taken = min(count, self._next - first)
            found.append([self._cut(tensor, start, taken) for tensor in self._held])
            first, count = first + taken, count - taken
        return (
            found[0]
            if len(found) == 1
            else [torch.cat([_lengthen(part) for part in parts]) for parts in zip(*found, strict=True)]
        )

    def _cut(self, tensor: torch.Tensor, start: int, count: int) -> torch.Tensor:
        if self._size == 1:
            return tensor
        part = tensor[start : start + count]
        return part.reshape(-1, *part.shape[2:]) if part.dim() > 1 else part


def _lengthen(tensor: torch.Tensor) -> torch.Tensor:
    """A scalar of one batch as a vector."""
    return tensor if tensor.dim() else tensor.reshape(1)


def lend(tensor: Any) -> torch.Tensor:
    """The same memory: a run does not write to its data."""
    if isinstance(tensor, torch.Tensor):
        return tensor
    return to_torch(tensor) if tensor.dtype in _WIDENED else from_dlpack(tensor)
