"""Embeddings, whole or sharded over the vocabulary."""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import Any

import numpy as np

import popxl
from popxl import ReplicaGrouping, ops
from popxl_addons.layers.initial_values import truncated_normal
from popxl_addons.module import Module

__all__ = ["Embedding"]

ROW_MULTIPLE = 16  # rows of a table are filled up to a multiple, as the original's slices like them


class Embedding(Module):
    """Rows of a table by index. With several groups in ``replica_grouping`` each has a part of the vocabulary.

    Indices of a sharded table are to be lowered by :meth:`get_offsets` first; rows that a shard does not have are zero.
    """

    def __init__(
        self,
        dtype: popxl.dtype,
        vocab_size: int,
        hidden_size: int,
        axis: int = 0,
        replica_grouping: ReplicaGrouping | None = None,
    ) -> None:
        super().__init__()
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.dtype, self.axis = dtype, axis
        self.replica_grouping = replica_grouping
        self.n_shards = replica_grouping.num_groups if replica_grouping is not None else 1
        self.vocab_shard_size = self.get_vocab_shard_size(vocab_size, self.n_shards)
        self.offsets = self.get_offsets(vocab_size, self.n_shards)

    @staticmethod
    def get_vocab_shard_size(vocab_size: int, n_shards: int) -> int:
        """Rows of a shard."""
        return ROW_MULTIPLE * ceil(ceil(vocab_size / n_shards) / ROW_MULTIPLE)

    @staticmethod
    def get_offsets(vocab_size: int, n_shards: int) -> np.ndarray[Any, Any]:
        """The first index of each shard."""
        return np.arange(n_shards) * Embedding.get_vocab_shard_size(vocab_size, n_shards)

    def build(self, indices: popxl.Tensor) -> popxl.Tensor:
        """``(…)`` to ``(…, hidden_size)``."""
        values = partial(truncated_normal, (self.vocab_shard_size, self.hidden_size))
        self.weight = self.add_variable_input("weight", values, self.dtype, replica_grouping=self.replica_grouping)
        sharded = self.n_shards > 1  # then some indices are rows of other shards
        return ops.gather(self.weight, indices, self.axis, zero_OOR=sharded)
