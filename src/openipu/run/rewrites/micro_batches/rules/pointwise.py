"""Operators that work element by element.

In: an old node. Out: the same operator on [F, ...]. Operands of lower rank get dimensions of size 1 behind F.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from openipu.run.rewrites.micro_batches.arguments import find_tensors
from openipu.run.rewrites.micro_batches.writer import BatchWriter, Value, read_shape

aten = torch.ops.aten

# Element by element as well, though not tagged so.
UNTAGGED = frozenset(
    {
        aten._to_copy.default,
        aten.copy.default,
        aten.floor_divide.default,
        aten.hardtanh_backward.default,
        aten.leaky_relu_backward.default,
        aten.elu_backward.default,
        aten.softplus_backward.default,
        aten.mish_backward.default,
        aten.hardswish_backward.default,
        aten.hardsigmoid_backward.default,
        aten.hardshrink_backward.default,
        aten.softshrink_backward.default,
        aten._prelu_kernel.default,
        aten._prelu_kernel_backward.default,
        aten.rrelu_with_noise_backward.default,
    }
)
_CHANNELS_LAST = {torch.channels_last: 4, torch.channels_last_3d: 5}


def is_pointwise(target: Any) -> bool:
    """Whether this family has a rule for the operator."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return target in UNTAGGED or torch.Tag.pointwise in target.tags


def batch_pointwise(writer: BatchWriter, node: fx.Node) -> Value | None:
    """The operator on aligned operands."""
    if node.kwargs.get("memory_format") in _CHANNELS_LAST:
        return _keep_channels_last(writer, node)
    tensors = find_tensors(node)
    rank = max(len(read_shape(value)) for value in tensors.values())
    operands = {name: _align(writer, value, rank, tensors) for name, value in tensors.items()}
    if _spreads_nothing(node):
        if any(len(read_shape(value)) != rank for value in tensors.values()):
            return None
        operands = {name: writer.lift(value) for name, value in tensors.items()}
    if node.target is aten.copy.default:  # the result has the shape of the first operand, which must have F
        operands["self"] = writer.lift(tensors["self"])
    new = writer.repeat(node, operands)
    before, after = node.meta["val"], new.meta["val"]
    if isinstance(before, torch.Tensor) and before.dtype is not after.dtype:
        return None  # a promotion of number formats that alignment cannot express
    return writer.take_items(new)


def _spreads_nothing(node: fx.Node) -> bool:
    """Operators of our own ask for operands of one shape."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace != "aten"


def _align(writer: BatchWriter, value: fx.Node, rank: int, tensors: dict[str, fx.Node]) -> fx.Node:
    """Line an operand up, and keep the rank of PyTorch's promotion: a 0-dim operand does not widen the others."""
    own = value.meta["val"]
    others = [other.meta["val"] for other in tensors.values() if other is not value]
    aligned = writer.align(value, rank)
    if own.dim() > 0 or not others:
        return aligned
    if rank == 0:
        # All operands were 0-dim and equal in rank; now the batched ones have a dimension.
        mixed = any(other.dtype is not own.dtype for other in others)
        return writer.view(aligned, [1]) if mixed and not writer.is_batched(value) else aligned
    wide = [other.dtype for other in others if other.dim() > 0 and _is_same_category(other.dtype, own.dtype)]
    if not wide or not writer.is_batched(value):
        return aligned
    common = wide[0]
    for dtype in wide[1:]:
        common = torch.promote_types(common, dtype)
    return aligned if common is own.dtype else writer.call(aten._to_copy.default, aligned, dtype=common)


def _is_same_category(first: torch.dtype, second: torch.dtype) -> bool:
    if torch.bool in (first, second):
        return False
    return (first.is_floating_point, first.is_complex) == (second.is_floating_point, second.is_complex)


def _keep_channels_last(writer: BatchWriter, node: fx.Node) -> Value | None:
    (source,) = find_tensors(node).values()
    if len(read_shape(source)) != _CHANNELS_LAST[node.kwargs["memory_format"]]:  # type: ignore[index]
        return None
    return writer.split(writer.repeat(node, {"self": writer.merge(writer.read_full(source))}))
