"""Gradients of weights by a C++ kernel.

In: a draft that is ready to be generated, whose gradients of weights are products of two matrices of which the first is
transposed, and the kernel. Out: the same draft, in which the kernel computes the large ones, or adds them to their
accumulators. It reads both matrices as they lie. On AMD's processors it is a tenth to a seventh faster than MKL, and
than oneDNN, which would transpose one of them first. Sums are in another order, so that last bits differ.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from openipu.run import thresholds
from openipu.run.drafts.ownership import gives_fresh_memory
from openipu.run.drafts.rules import Match, Rule, Search, Writer, matched
from openipu.run.kernels import OperandError, Run, address_of, address_of_rows
from openipu.run.kernels.catalog import ProductArguments
from openipu.run.rewrites.products.onednn_products import is_transposed, prefers_other_products

aten = torch.ops.aten

_VIEWS = frozenset({aten.view.default, aten._unsafe_view.default, aten.reshape.default})
_TURNS = frozenset({aten.t.default, aten.transpose.int, aten.permute.default})


def make_rules(run: Run | None) -> tuple[Rule, ...]:
    """Let the kernel compute the gradients of weights, where no library is made for this host."""

    def multiply(match: Match, writer: Writer) -> fx.Node:
        left, right = match["left"], match["right"]
        if match["total"]:
            return writer.call(add_columns, *match["total"], left, right, match.root.kwargs.get("alpha", 1), run)
        return writer.call(multiply_columns, left, right, run)

    if not prefers_other_products():
        return ()
    return (Rule("gradient of a weight", Search((aten.mm.default, torch.Tensor.addmm_), _find), multiply),)


@gives_fresh_memory
def multiply_columns(left: torch.Tensor, right: torch.Tensor, run: Run) -> torch.Tensor:
    """`left.T @ right`. All dimensions of `left` but its last one are rows."""
    left = left.flatten(0, -2)
    result = torch.empty(left.shape[1], right.shape[1], dtype=torch.float32)
    if _multiply(left, right, result, 1.0, run, adds=False):
        return result
    return torch.mm(left.t(), right)


def add_columns(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor, factor: float, run: Run) -> torch.Tensor:
    """Add `factor * left.T @ right` to a total."""
    left = left.flatten(0, -2)
    if _multiply(left, right, total, factor, run, adds=True):
        return total
    if total.dtype is left.dtype:
        return total.addmm_(left.t(), right, alpha=factor)
    return total.add_(torch.mm(left.t(), right), alpha=factor)


def _multiply(
    left: torch.Tensor, right: torch.Tensor, result: torch.Tensor, factor: float, run: Run, *, adds: bool
) -> bool:
    """Whether the kernel takes these operands, and has multiplied them."""
    (depth, height), width = left.shape, right.shape[1]
    if tuple(result.shape) != (height, width):
        return False
    try:
        left_address, left_stride = address_of_rows(left, depth, height)
        right_address, right_stride = address_of_rows(right, depth, width)
        arguments = ProductArguments(
            left=left_address,
            right=right_address,
            result=address_of(result, height * width),
            left_stride=left_stride,
            right_stride=right_stride,
            depth=depth,
            height=height,
            width=width,
            factor=factor,
            adds=adds,
            threads=torch.get_num_threads(),
        )
    except OperandError:
        return False
    run(arguments)
    return True


def _find(node: fx.Node) -> Match | None:
    """`left.T @ right` in float32, large enough; or its sum with a total."""
    operands: tuple[Any, ...] = node.args
    if set(node.kwargs) - ({"alpha"} if node.target is torch.Tensor.addmm_ else set()):
        return None
    *total, transposed, right = operands
    left = _find_rows(transposed)
    if not isinstance(right, fx.Node) or is_transposed(right) or left is None:
        return None
    if any(value.meta["val"].dtype is not torch.float32 for value in (transposed, right)):
        return None
    (height, depth), (_, width) = transposed.meta["val"].shape, right.meta["val"].shape
    large = depth >= thresholds.WEIGHT_GRADIENT_DEPTH and min(height, width) >= thresholds.WEIGHT_GRADIENT_SIDE
    if not large or depth * height * width < thresholds.WEIGHT_GRADIENT_WORK:
        return None
    return matched(node, total=total, left=left, right=right)


def _find_rows(transposed: Any) -> fx.Node | None:
    """The value whose rows are the columns of a matrix: transposed, and where it has several dimensions of rows, as
    batched micro-batches have, made flat behind that."""
    if not isinstance(transposed, fx.Node):
        return None
    node: Any = transposed.args[0] if transposed.target in _VIEWS else transposed
    order: list[int] = []
    while isinstance(node, fx.Node) and node.target in _TURNS:
        step = _read_order(node)
        order = [step[place] for place in order] if order else step
        node = node.args[0]
    if not order or not isinstance(node, fx.Node) or order != [len(order) - 1, *range(len(order) - 1)]:
        return None
    *rows, width = node.meta["val"].shape
    return node if tuple(transposed.meta["val"].shape) == (width, math.prod(rows)) else None


def _read_order(turn: fx.Node) -> list[int]:
    """Which dimension of its argument each dimension is."""
    arguments: tuple[Any, ...] = turn.args
    count = turn.meta["val"].dim()
    if turn.target is aten.permute.default:
        return [place % count for place in arguments[1]]
    order = list(range(count))
    first, second = (0, 1) if turn.target is aten.t.default else arguments[1:]
    order[first], order[second] = order[second], order[first]
    return order
