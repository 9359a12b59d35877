"""Arrays whose samples are taken in their order: without `tf.data`.

In: the adapter that Keras made of what `fit`, `evaluate` or `predict` got. Out: `OrderedArrays`: the types of a batch,
and readers that hand out batches as views of the arrays. Building a data set of arrays and starting it takes some tens
of milliseconds, which is more than a short call computes; and it copies each batch. Arrays that are shuffled, or that
Keras would convert, go through `tf.data` as ever.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy
import torch
from keras.src.trainers import data_adapters
from torch.utils.dlpack import from_dlpack

import tensorflow as tf

_KEPT = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64"})  # what neither Keras nor we convert


@dataclass(frozen=True, eq=False)
class OrderedArrays:
    """`tensors`: the arrays, flat, each of all samples."""

    tensors: tuple[torch.Tensor, ...]
    element_spec: Any  # of one batch
    batch: int

    def read(self, size: int) -> Iterator[tuple[torch.Tensor, ...]]:
        """`size` batches at a time, on a dimension of their own if there is more than one."""
        count = size * self.batch
        front = (size, self.batch) if size > 1 else (self.batch,)
        for first in range(0, len(self.tensors[0]) - count + 1, count):
            yield tuple(tensor[first : first + count].view(*front, *tensor.shape[1:]) for tensor in self.tensors)


def find_ordered_arrays(adapter: Any) -> OrderedArrays | None:
    """What an adapter reads from, if that is arrays in order which a run can read as they lie."""
    if not isinstance(adapter, data_adapters.ArrayDataAdapter) or adapter._shuffle:
        return None
    inputs = keras.tree.lists_to_tuples(adapter._inputs)
    leaves = tf.nest.flatten(inputs)
    if not leaves or not all(map(_is_readable, leaves)):
        return None
    batch = adapter.batch_size
    spec = tf.nest.map_structure(lambda leaf: tf.TensorSpec((batch, *leaf.shape[1:]), leaf.dtype), inputs)
    return OrderedArrays(tuple(map(_lend, leaves)), spec, batch)


def _is_readable(leaf: Any) -> bool:
    """A dense array in one piece, of a type that stays as it is."""
    if isinstance(leaf, numpy.ndarray):
        name, whole = leaf.dtype.name, leaf.flags.c_contiguous and leaf.dtype.isnative
    elif isinstance(leaf, tf.Tensor) and hasattr(leaf, "numpy"):
        name, whole = leaf.dtype.name, True
    else:
        return False
    kept = name in _KEPT or name == keras.config.floatx() == "float32"
    return kept and whole and leaf.ndim > 0 and all(leaf.shape)


def _lend(leaf: Any) -> torch.Tensor:
    """The same memory: a run does not write to its data."""
    if not isinstance(leaf, numpy.ndarray):
        return from_dlpack(leaf)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(leaf)
