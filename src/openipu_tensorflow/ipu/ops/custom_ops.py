"""`ipu.custom_ops`: ops of the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import tensorflow as tf
from openipu_tensorflow.ipu.ops.user_ops import find_user_op


def precompiled_user_op(
    inputs: Sequence[Any],
    library_path: str,
    gp_path: str = "",
    outs: Mapping[str, Any] | None = None,
    name: str = "UserOp",
    op_name: str = "Build",
    separate_gradients: bool = False,
    inputs_with_gradients: Any = None,
    attributes: str | None = None,
    gradient_attributes: str | None = None,
) -> list[Any]:
    """An op from a library in C++: the function that is registered for its file's name.

    That for `op_name` comes first, where a library has several ops. Its gradient is TensorFlow's, so that what
    says how the library differentiates (`separate_gradients`, `inputs_with_gradients`, `gradient_attributes`) has no
    effect; nor has `gp_path`, the codelets.
    """
    function = find_user_op(library_path, op_name)
    if function is None:
        raise NotImplementedError(
            f"precompiled_user_op: {library_path} was compiled against Poplar and cannot run here. Give openipu a "
            "function over TensorFlow's ops for it, `f(tensors, attributes, shapes)` that returns a list of tensors: "
            "openipu_tensorflow.ipu.ops.user_ops.register_user_op(library, f)."
        )
    with tf.name_scope(name):
        given = [tf.convert_to_tensor(entry) for entry in inputs]
        expected = outs or {}
        shapes = [tf.TensorShape(shape) for shape in expected.get("output_shapes", ())]
        made = list(function(given, attributes or "", shapes))
    _check_results(made, expected, library_path)
    return made


def _check_results(made: Sequence[Any], outs: Mapping[str, Any], library: str) -> None:
    """Another library of the same name would make other tensors."""
    expected = list(zip(outs.get("output_types", ()), outs.get("output_shapes", ()), strict=True))
    fits = len(made) == len(expected) and all(
        tensor.dtype == kind and tensor.shape.is_compatible_with(shape)
        for tensor, (kind, shape) in zip(made, expected, strict=True)
    )
    if not fits:
        raise ValueError(
            f"The function that is registered for {library} makes {[(t.dtype.name, t.shape) for t in made]}, and the "
            f"program expects {expected}. Register the one that belongs to this library with register_user_op."
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
