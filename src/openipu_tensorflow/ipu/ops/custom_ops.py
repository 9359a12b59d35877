"""`ipu.custom_ops`: ops of the user's own."""

from __future__ import annotations

from typing import Any, NoReturn


def precompiled_user_op(*args: Any, **kwargs: Any) -> NoReturn:
    """An op from a library in C++."""
    raise NotImplementedError(
        "precompiled_user_op: a library that was compiled against Poplar cannot run here. Write the op with "
        "TensorFlow's own ops, or as a tf.custom_gradient of them."
    )


def cpu_user_operation(*args: Any, **kwargs: Any) -> NoReturn:
    """An op of the host from a library in C++."""
    raise NotImplementedError(
        "cpu_user_operation: a library that was compiled against the original's headers cannot be called here. "
        "Enqueue its inputs to an IPUOutfeedQueue, and compute on the host between two runs."
    )


def codelet_expression_op(vertex_expression: Any, *args: Any) -> Any:
    """A Python function of scalars, applied to each element."""
    from tensorflow.python.framework import ops

    return vertex_expression(*(ops.convert_to_tensor(value) for value in args))
