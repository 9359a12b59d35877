"""`ipu.sharding`: which IPU of a device an op is on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openipu_tensorflow.graphs.places import SHARD


def has_attr(o: Any, attr_name: str) -> bool:
    """Has an op an attribute of this name?"""
    return attr_name in o.node_def.attr


def get_sharding(op: Any) -> list[int] | None:
    """The shards of an op: those of the op that it differentiates, or its own."""
    forward = getattr(op, "_original_op", None)
    found = None if forward is None else get_sharding(forward)
    if found is None and has_attr(op, SHARD):
        found = [int(entry) for entry in op.get_attr(SHARD)]
    return found


def get_shard_from_colocation(op: Any) -> list[int] | None:
    """The shards of an op that this one is to be beside, if it says so."""
    graph = op.graph
    for name in op.colocation_groups():
        text = name.decode() if isinstance(name, bytes) else str(name)
        other = text.removeprefix("loc:@")
        if other == op.name:
            continue
        try:
            found = get_sharding(graph.get_operation_by_name(other))
        except KeyError:
            continue
        if found is not None:
            return found
    return None


def dependencies(roots: Sequence[Any]) -> list[Any]:
    """All ops that others depend on, each once, those that depend on nothing first."""
    found: dict[str, Any] = {}
    stack = [(getattr(root, "op", root), False) for root in roots]
    while stack:
        op, done = stack.pop()
        if done:
            found.setdefault(op.name, op)
        elif op.name not in found:
            stack.append((op, True))
            stack += [(tensor.op, False) for tensor in op.inputs if tensor.op.name not in found]
    return list(found.values())


def propagate_sharding(g: Any) -> None:
    """Give ops without a shard that of the op they are to be beside, of their inputs, or of those that use them."""
    from tensorflow.core.framework import attr_value_pb2

    ops = g.get_operations()
    for backwards in (False, True):
        for op in reversed(ops) if backwards else ops:
            if get_sharding(op) is not None:
                continue
            neighbours = [entry for tensor in op.outputs for entry in tensor.consumers()]
            inputs = [tensor.op for tensor in op.inputs]
            found = get_shard_from_colocation(op)
            for other in neighbours if backwards else inputs:
                found = found or get_sharding(other)
            if found is not None:
                value = attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(i=found))
                op._set_attr(SHARD, value)


def enable_sharded_gradient_tape() -> None:
    """Let ops that a tape makes in a graph be in the shard of the op that they differentiate.

    A tape hands on what it recorded of an op, not the op itself: the shard travels as one more attribute.
    """
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import backprop, execute

    pywrap_tfe.TFE_Py_RegisterGradientFunction(_differentiate_in_shard)
    if execute.record_gradient is backprop.record_gradient:
        execute.record_gradient = _record_with_shard


def _record_with_shard(op_name: str, inputs: Any, attrs: Any, outputs: Any) -> Any:
    from tensorflow.python.eager import backprop, context
    from tensorflow.python.framework import ops

    shard = None if context.executing_eagerly() else ops.get_default_graph()._attr_scope_map.get(SHARD)
    if shard is not None:
        attrs = (*(attrs or ()), SHARD, shard)
    return backprop.record_gradient(op_name, inputs, attrs, outputs)


def _differentiate_in_shard(op_name: str, attrs: Any, *rest: Any) -> Any:
    from tensorflow.python.eager import backprop, context
    from tensorflow.python.framework import ops

    if not attrs or attrs[-2] != SHARD:
        return backprop._gradient_function(op_name, attrs, *rest)
    own, shard = attrs[:-2], attrs[-1]
    if context.executing_eagerly():
        return backprop._gradient_function(op_name, own, *rest)
    with ops.get_default_graph()._attr_scope({SHARD: shard}):
        return backprop._gradient_function(op_name, own, *rest)
