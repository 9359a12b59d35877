"""`ipu.embedding_ops`: rows of a table, on the device and on the host."""

from __future__ import annotations

from typing import Any


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


def create_host_embedding(*args: Any, **kwargs: Any) -> Any:
    """A table in the memory of the host."""
    raise NotImplementedError(
        "create_host_embedding: tables in the memory of the host are not here. Use embedding_lookup on a variable; the "
        "plan can take weights off the chip by offload_weights of a pipeline."
    )
