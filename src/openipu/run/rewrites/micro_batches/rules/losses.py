"""Losses that reduce by themselves: the mean or sum stays one of each micro-batch.

In: an old node. Out: the loss of every element, computed by the same operator without its reduction, then reduced for
each micro-batch; backward, the gradient of each loss is spread over its elements first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from openipu.run.rewrites.micro_batches.arguments import find_tensors, read_arguments
from openipu.run.rewrites.micro_batches.writer import BatchWriter, Value, read_shape

aten = torch.ops.aten

_NONE, _MEAN = 0, 1

_ELEMENTWISE = (
    aten.mse_loss.default,
    aten.smooth_l1_loss.default,
    aten.huber_loss.default,
    aten.soft_margin_loss.default,
    aten.binary_cross_entropy.default,
)
_ELEMENTWISE_BACKWARD = (
    aten.mse_loss_backward.default,
    aten.smooth_l1_loss_backward.default,
    aten.huber_loss_backward.default,
    aten.soft_margin_loss_backward.default,
    aten.binary_cross_entropy_backward.default,
)


def _batch_elementwise(writer: BatchWriter, node: fx.Node) -> Value:
    reduction = read_arguments(node)["reduction"]
    losses = writer.repeat(node, {**_expand_all(writer, find_tensors(node)), "reduction": _NONE})
    if reduction == _NONE:
        return losses
    reduce = aten.mean.dim if reduction == _MEAN else aten.sum.dim_IntList
    return writer.call(reduce, writer.flatten(losses), [1])


def _batch_elementwise_backward(writer: BatchWriter, node: fx.Node) -> Value:
    arguments = read_arguments(node)
    changes: dict[str, Any] = dict(_expand_all(writer, find_tensors(node)))
    if arguments["reduction"] == _MEAN:
        elements = changes["self"].meta["val"].numel() // writer.factor
        changes["grad_output"] = writer.call(aten.div.Tensor, changes["grad_output"], elements)
    return writer.repeat(node, {**changes, "reduction": _NONE})


def _expand_all(writer: BatchWriter, tensors: dict[str, fx.Node]) -> dict[str, fx.Node]:
    """All operands in the shape that they have together, with F in front."""
    shape = torch.broadcast_shapes(*map(read_shape, tensors.values()))  # type: ignore[no-untyped-call]
    return {name: _expand(writer, writer.align(value, len(shape)), shape) for name, value in tensors.items()}


def _expand(writer: BatchWriter, value: fx.Node, shape: tuple[int, ...]) -> fx.Node:
    full = (writer.factor, *shape)
    if read_shape(value) != full:
        return writer.call(aten.expand.default, value, list(full))
    if value.meta["val"].is_contiguous():
        return value
    # The kernels return contiguous gradients whatever they read; meta tensors say so only of contiguous operands.
    return writer.call(aten.clone.default, value, memory_format=torch.contiguous_format)


def _batch_nll(writer: BatchWriter, node: fx.Node) -> Value | None:
    arguments = read_arguments(node)
    if writer.is_batched(arguments["weight"]):
        return None
    scores, target = _merge_rows(writer, arguments["self"]), _merge_labels(writer, arguments["target"])
    changes = {"self": scores, "target": target, "reduction": _NONE}
    items = writer.take_items(writer.repeat(node, changes))
    assert isinstance(items, tuple)
    losses = items[0]
    assert losses is not None
    if arguments["reduction"] == _NONE:
        nothing = writer.fill([writer.factor], 0.0, losses.meta["val"].dtype)
        return (writer.view(losses, [writer.factor, *read_shape_of_item(node, 0)]), nothing)
    total = writer.call(aten.sum.dim_IntList, writer.flatten(losses), [1])
    weight = _sum_weights(writer, target, arguments, losses.meta["val"].dtype)
    if arguments["reduction"] == _MEAN:
        total = writer.call(aten.div.Tensor, total, weight)
    return (total, weight)


def _batch_nll_backward(writer: BatchWriter, node: fx.Node) -> Value | None:
    arguments = read_arguments(node)
    if writer.is_batched(arguments["weight"]):
        return None
    labels = read_shape(arguments["target"])
    grad = writer.lift(arguments["grad_output"])
    if arguments["reduction"] == _MEAN:
        grad = writer.call(aten.div.Tensor, grad, writer.lift(arguments["total_weight"]))
    if arguments["reduction"] != _NONE:
        spread = writer.view(grad, [writer.factor, *[1] * len(labels)])
        grad = writer.call(aten.expand.default, spread, [writer.factor, *labels])
    changes = {
        "grad_output": writer.merge(grad) if labels else grad,
        "self": _merge_rows(writer, arguments["self"]),
        "target": _merge_labels(writer, arguments["target"]),
        "reduction": _NONE,
        "total_weight": writer.fill([], 0.0, grad.meta["val"].dtype),  # only a mean reads it
    }
    result = writer.repeat(node, changes)
    return writer.view(result, [writer.factor, *read_shape(node)])


def _merge_rows(writer: BatchWriter, node: fx.Node) -> fx.Node:
    """Scores [b, classes, ...] of all micro-batches together; a single row of classes has no batch."""
    lifted = writer.lift(node)
    return lifted if len(read_shape(node)) == 1 else writer.merge(lifted)


def _merge_labels(writer: BatchWriter, node: fx.Node) -> fx.Node:
    lifted = writer.lift(node)
    return writer.merge(lifted) if read_shape(node) else lifted


def _sum_weights(writer: BatchWriter, target: fx.Node, arguments: dict[str, Any], dtype: torch.dtype) -> fx.Node:
    """The weight of all labels that count, for each micro-batch."""
    counted = writer.call(aten.ne.Scalar, target, arguments["ignore_index"])
    weights = writer.call(aten._to_copy.default, counted, dtype=dtype)
    if arguments["weight"] is not None:
        # Ignored labels may lie outside the classes.
        safe = writer.call(aten.mul.Tensor, target, counted)
        chosen = writer.call(aten.index.Tensor, writer.read_full(arguments["weight"]), [safe])
        weights = writer.call(aten.mul.Tensor, weights, chosen)
    return writer.call(aten.sum.dim_IntList, writer.flatten(weights), [1])


def read_shape_of_item(node: fx.Node, index: int) -> tuple[int, ...]:
    """The shape of one of several results."""
    return tuple(node.meta["val"][index].shape)


LOSSES: dict[Any, Any] = {
    **dict.fromkeys(_ELEMENTWISE, _batch_elementwise),
    **dict.fromkeys(_ELEMENTWISE_BACKWARD, _batch_elementwise_backward),
    aten.nll_loss_forward.default: _batch_nll,
    aten.nll_loss_backward.default: _batch_nll_backward,
    aten.nll_loss2d_forward.default: _batch_nll,
    aten.nll_loss2d_backward.default: _batch_nll_backward,
}
