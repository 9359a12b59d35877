"""Pointwise operators that write over an operand which nobody reads any more.

In: a draft that is ready to be generated. Out: the same draft, in which such an operator has no memory of its own. Its
operand is in the cache and its pages are there; a result elsewhere would first be read from memory to be written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from openipu.run import thresholds
from openipu.run.drafts.aliasing import find_viewed
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.ownership import is_fresh, is_marked_fresh, reads_once
from openipu.run.rewrites.fusion.class_gradients import differentiate_classes, differentiate_in_place
from openipu.run.rewrites.fusion.gelu_kernel import differentiate_gelu, differentiate_gelu_in_place
from openipu.run.rewrites.in_place.buffers_in_place import WRITERS
from openipu.run.rewrites.random.dropout import keep_elements, keep_in_place

aten = torch.ops.aten

_threshold_into = aten.threshold_backward.grad_input._op
_log_softmax_into = aten._log_softmax.out._op
_gelu_into = aten.gelu_backward.grad_input._op


def _block_gradient(gradient: torch.Tensor, tensor: torch.Tensor, threshold: float) -> torch.Tensor:
    found: torch.Tensor = _threshold_into(gradient, tensor, threshold, grad_input=gradient)
    return found


def _bend_gradient(gradient: torch.Tensor, tensor: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    found: torch.Tensor = _gelu_into(gradient, tensor, approximate=approximate, grad_input=gradient)
    return found


def _log_softmax(tensor: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    if not tensor.is_contiguous():
        return torch._log_softmax(tensor, dim, half_to_float)
    found: torch.Tensor = _log_softmax_into(tensor, dim, half_to_float, out=tensor)
    return found


# What each operator is in place, for a result that has the shape and format of its first operand.
_IN_PLACE: dict[Any, Callable[..., Any]] = {
    aten.relu.default: torch.relu_,
    aten.threshold_backward.default: _block_gradient,
    aten.gelu_backward.default: _bend_gradient,
    aten.add.Tensor: torch.Tensor.add_,
    aten.sub.Tensor: torch.Tensor.sub_,
    aten.mul.Tensor: torch.Tensor.mul_,
    aten.div.Tensor: torch.Tensor.div_,
    aten.neg.default: torch.Tensor.neg_,
    aten.bitwise_right_shift.Tensor_Scalar: torch.Tensor.bitwise_right_shift_,
    aten.bitwise_and.Scalar: torch.Tensor.bitwise_and_,
    aten._log_softmax.default: _log_softmax,
    keep_elements: keep_in_place,
    differentiate_classes: differentiate_in_place,
    differentiate_gelu: differentiate_gelu_in_place,
    **WRITERS,
}
_EITHER = frozenset({aten.add.Tensor, aten.mul.Tensor})  # the second operand will do as well
_WRITERS = frozenset(_IN_PLACE.values())


def reuse_memory(draft: Draft) -> None:
    """Let pointwise operators write over operands that they are the last to read."""
    order = {node: place for place, node in enumerate(draft.graph.nodes)}
    readers = _list_readers(draft.graph)
    for node in list(draft.graph.nodes):
        if node.target not in _IN_PLACE or node.meta["val"].numel() < thresholds.REUSED_ELEMENTS:
            continue
        operands = node.args[:2] if node.target in _EITHER and not node.kwargs else node.args[:1]
        for operand in operands:
            owner = _find_own_memory(operand, node)
            if owner is None or any(order[reader] > order[node] for reader in readers[owner]):
                continue
            if not all(_only_reads(reader) for reader in readers[owner]):
                continue
            others = [value for value in node.all_input_nodes if value is not operand]
            if any(_find_owner(value) is owner for value in others):
                continue  # it may lie turned there
            if operand is not node.args[0]:
                node.args = (operand, node.args[0])
            node.target = _IN_PLACE[node.target]
            readers.setdefault(owner, set()).update(readers.pop(node, ()))
            break


def _find_viewed(node: fx.Node) -> fx.Node | None:
    """As `find_viewed`, also through operators that were made to write over their operand."""
    if node.target in _WRITERS:
        first = node.args[0]
        return first if isinstance(first, fx.Node) else None
    return find_viewed(node)


def _find_owner(node: fx.Node) -> fx.Node:
    while True:
        source = _find_viewed(node)
        if source is None:
            return node
        node = source


def _list_readers(graph: fx.Graph) -> dict[fx.Node, set[fx.Node]]:
    """Who reads the memory that a node owns, also by way of views."""
    found: dict[fx.Node, set[fx.Node]] = {}
    for node in graph.nodes:
        for source in node.all_input_nodes:
            found.setdefault(_find_owner(source), set()).add(node)
    return found


def _only_reads(node: fx.Node) -> bool:
    """Not a function of ours, which might keep what it was given; nor the end of the graph."""
    plain = isinstance(node.target, torch._ops.OpOverload) or node.target is operator.getitem
    return plain or is_marked_fresh(node.target) or node.target in _WRITERS


def _find_own_memory(operand: Any, node: fx.Node) -> fx.Node | None:
    """The node whose memory an operand fills, if it belongs to the graph, and the result would fit into it."""
    if not isinstance(operand, fx.Node) or (node.target not in _EITHER and not reads_once(node, operand)):
        return None
    value, result = operand.meta.get("val"), node.meta["val"]
    if not isinstance(value, torch.Tensor) or value.shape != result.shape or value.dtype is not result.dtype:
        return None
    current = operand
    while True:
        if current.target is aten.expand.default:
            return None  # one element of memory for several of the tensor
        source = _find_viewed(current)
        if source is None:
            break
        current = source
    owned = current.meta.get("val")
    whole = isinstance(owned, torch.Tensor) and owned.numel() == value.numel()
    return current if whole and is_fresh(current) else None
