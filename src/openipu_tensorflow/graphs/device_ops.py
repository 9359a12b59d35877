"""Ops of an IPU that TensorFlow does not have, in its graphs.

In: the name of an op for which openipu has a rule, tensors, attributes. Out: tensors. In a graph such an op is one of
TensorFlow's own that calls Python, with the name and the attributes as marks: a program translates it by its rule, and
where TensorFlow itself runs it, or runs eagerly, the same rule computes it on the host.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

import tensorflow as tf
from openipu.translate.foreign import ForeignNode
from openipu.translate.site import Site
from openipu.translate.tensorflow.table import TABLE
from openipu_tensorflow.graphs.formats import to_numpy, to_torch

OP, OPTIONS = "_ipu_op", "_ipu_op_options"  # attributes


def add_device_op(
    op: str,
    inputs: Sequence[Any],
    results: Sequence[tuple[Any, Sequence[int | None]]],
    attributes: Mapping[str, Any] | None = None,
    acts: bool = False,
) -> Any:
    """`results`: types and shapes. `acts`: it does more than return values. Returns tensors; without results, an op."""
    from tensorflow.core.framework import attr_value_pb2
    from tensorflow.python.ops import script_ops

    given = [tf.convert_to_tensor(value) for value in inputs]
    known = dict(attributes or {})

    def compute(*arrays: Any) -> list[Any]:
        return _run_rule(op, known, arrays, [dtype for dtype, _ in results])

    if tf.executing_eagerly():
        return [tf.constant(value) for value in compute(*(value.numpy() for value in given))]
    marks = {
        OP: attr_value_pb2.AttrValue(s=op.encode()),
        OPTIONS: attr_value_pb2.AttrValue(s=json.dumps(known).encode()),
    }
    with tf.compat.v1.get_default_graph()._attr_scope(marks):
        made = script_ops.numpy_function(compute, given, [dtype for dtype, _ in results], stateful=acts, name=op)
    if not results:
        return made
    tensors = list(made) if isinstance(made, list | tuple) else [made]
    for tensor, (_, shape) in zip(tensors, results, strict=True):
        tensor.set_shape(shape)
    return tensors


def read_device_op(attributes: Any) -> tuple[str, dict[str, Any]] | None:
    """The name and the attributes of such an op, by the attributes of TensorFlow's."""
    if OP not in attributes:
        return None
    return attributes[OP].s.decode(), json.loads(attributes[OPTIONS].s.decode())


def is_acting(op: Any) -> bool:
    """Is it such an op, and does more than return values?"""
    return op.type == "PyFunc" and OP in op.node_def.attr


def _run_rule(op: str, attributes: Mapping[str, Any], arrays: Sequence[Any], kinds: Sequence[Any]) -> list[Any]:
    names = tuple(str(place) for place in range(len(arrays)))
    node = ForeignNode(op, names, tuple(f"result_{place}" for place in range(len(kinds))), dict(attributes), name=op)
    site = Site(node, tuple(to_torch(value) for value in arrays), "", lambda body, values: [])
    found = TABLE.need(node, "").handler(site)
    listed = [found] if found is None or isinstance(found, torch.Tensor) else list(found)
    return [to_numpy(value, kind) for value, kind in zip(listed, kinds, strict=False) if value is not None]
