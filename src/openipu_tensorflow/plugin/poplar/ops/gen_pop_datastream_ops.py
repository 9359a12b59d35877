"""Raw ops on tables in the memory of the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openipu.host.embeddings import hold_table, release_table
from openipu_tensorflow.graphs.device_ops import add_device_op
from openipu_tensorflow.graphs.formats import to_numpy, to_torch


def ipu_device_embedding_lookup(
    indices: Any,
    embedding_id: str,
    embedding_shape: Sequence[int],
    dtype: Any,
    partition_strategy: str = "TOKEN",
    name: str | None = None,
) -> Any:
    """Rows of a table."""
    from tensorflow.python.framework import dtypes, ops

    places, kind = ops.convert_to_tensor(indices), dtypes.as_dtype(dtype)
    options = {"table": embedding_id, "width": int(embedding_shape[1]), "dtype": kind.name}
    result = (kind, [*places.shape, int(embedding_shape[1])])
    return add_device_op("IpuHostEmbeddingLookup", [places], [result], options)[0]


def ipu_device_embedding_update_add(
    input: Any,
    grads: Any,
    indices: Any,
    embedding_id: str,
    embedding_shape: Sequence[int],
    partition_strategy: str = "TOKEN",
    name: str | None = None,
) -> Any:
    """Rows that are added to a table."""
    options = {"table": embedding_id, "rate": 1.0, "factor": 1}
    return add_device_op("IpuHostEmbeddingUpdate", [grads, indices], [], options, acts=True)


def ipu_host_embedding_register(
    embedding: Any, embedding_id: str, optimizer: str = "SGD", partition_strategy: str = "TOKEN"
) -> Any:
    """An op of the host after which programs can use the table."""
    from tensorflow.python.ops import script_ops

    return script_ops.numpy_function(lambda value: hold_table(embedding_id, to_torch(value)), [embedding], [])


def ipu_host_embedding_deregister(
    embedding: Any, embedding_id: str, optimizer: str = "SGD", partition_strategy: str = "TOKEN"
) -> Any:
    """The table as programs have left it."""
    from tensorflow.python.ops import script_ops

    kind = embedding.dtype.base_dtype
    return script_ops.numpy_function(lambda: to_numpy(release_table(embedding_id), kind), [], kind)
