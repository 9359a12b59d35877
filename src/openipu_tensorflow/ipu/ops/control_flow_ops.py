"""`ipu.control_flow_ops`: barriers between ops."""

from __future__ import annotations

from typing import Any


def barrier(tensors: Any, insert_barrier_for_gradients: bool = False, name: str | None = None) -> Any:
    """None of the results is there before all tensors are. Values are the same."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops
    from tensorflow.python.util import nest

    flat = [ops.convert_to_tensor(tensor) for tensor in nest.flatten(tensors)]
    if not isinstance(insert_barrier_for_gradients, bool):
        raise TypeError(f"insert_barrier_for_gradients is True or False, not {insert_barrier_for_gradients!r}.")
    with ops.control_dependencies(flat):
        return nest.pack_sequence_as(tensors, [array_ops.identity(tensor, name=name) for tensor in flat])
