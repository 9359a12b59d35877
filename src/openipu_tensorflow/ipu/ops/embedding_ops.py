"""`ipu.embedding_ops`: rows of a table, on the device and on the host."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.ipu.embeddings.host import (
    HostEmbedding,
    HostEmbeddingOptimizerSpec,
    HostEmbeddingSGDGAOptimizerSpec,
    create_host_embedding,
)

__all__ = [
    "HostEmbedding",
    "HostEmbeddingOptimizerSpec",
    "HostEmbeddingSGDGAOptimizerSpec",
    "create_host_embedding",
    "embedding_lookup",
]


def embedding_lookup(
    params: Any, ids: Any, serialization_factor: int = 1, indices_are_sorted: bool = False, name: str | None = None
) -> Any:
    """Rows of a table. With a serialization factor the table is used in so many parts; values are the same."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops

    table = ops.convert_to_tensor(params)
    rows = table.shape[0]
    if isinstance(serialization_factor, bool) or not isinstance(serialization_factor, int) or serialization_factor < 1:
        raise ValueError(f"serialization_factor has to be at least 1, but was {serialization_factor!r}.")
    if rows % serialization_factor:
        raise ValueError(
            f"The serialization_factor ({serialization_factor}) must divide the size of the first dimension of params "
            f"({rows})."
        )
    return array_ops.gather(table, ops.convert_to_tensor(ids), name=name)
