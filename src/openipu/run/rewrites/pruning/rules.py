"""How single entries go through operators.

`find_zeros`: which entries of a result are not zero, from those of the operands. `find_needed`: which entries of an
operand are read, if of the result only some are. `find_contracted`: which entries of an operand are read where the
other one is zero elsewhere and the dimension is summed over.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.aliasing import is_pointwise
from openipu.run.drafts.random_numbers import random_bits
from openipu.run.rewrites.pruning.axes import Axis, find_entry, find_slice, follow_order, follow_view

aten = torch.ops.aten

VIEWS = frozenset({aten.view.default, aten._unsafe_view.default, aten.reshape.default})
TURNS = frozenset({aten.t.default, aten.transpose.int, aten.permute.default})
PRODUCTS = frozenset({aten.mm.default, aten.bmm.default, aten.addmm.default})
SUMS = frozenset({aten.sum.dim_IntList})
# Operators that work along a dimension, and which argument that is.
_ALONG_BACKWARD = {aten._softmax_backward_data.default: 2, aten._log_softmax_backward_data.default: 2}
_ALONG = {
    **dict.fromkeys((aten._softmax.default, aten._safe_softmax.default, aten._log_softmax.default), 1),
    **_ALONG_BACKWARD,
}
# The same for the shape that is normalized, and which arguments have a number for each entry.
_NORMS = {aten.native_layer_norm.default: 1, aten.native_layer_norm_backward.default: 2}
_NORMS_ENTRIES = {aten.native_layer_norm.default: (0,), aten.native_layer_norm_backward.default: (0, 1, 3, 4)}
_COPIES = frozenset({aten.clone.default})
# Zero where their first operand is.
_KEEP_ZEROS = frozenset(
    {
        *(aten.mul.Scalar, aten.div.Scalar, aten.neg.default, aten._to_copy.default),
        *(aten.gelu_backward.default, aten.tanh_backward.default, aten.sigmoid_backward.default),
        *(aten.silu_backward.default, aten.threshold_backward.default, aten.hardswish_backward.default),
        *(aten.leaky_relu_backward.default, aten.elu_backward.default, aten.hardtanh_backward.default),
    }
)
_BOTH_ZERO = frozenset({aten.add.Tensor, aten.sub.Tensor})
_EITHER_ZERO = frozenset({aten.mul.Tensor})

Axes = Mapping[fx.Node, Axis]


def read_shape(node: fx.Node) -> tuple[int, ...] | None:
    """The shape of a value, or of the first of several."""
    value = node.meta.get("val")
    if isinstance(value, tuple | list) and value:
        value = value[0]
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None


def read_selection(node: fx.Node) -> Axis | None:
    """The entry that a node takes out of its operand, or that it is the gradient of."""
    arguments: tuple[Any, ...] = node.args
    if node.kwargs:
        return None
    if node.target is aten.select.int:
        return find_entry(_read_operand(node), arguments[1], arguments[2])
    if node.target is aten.slice.Tensor:
        return find_slice(_read_operand(node), *_fill(arguments[1:], (0, None, None, 1)))
    if node.target is aten.select_backward.default:
        return find_entry(arguments[1], arguments[2], arguments[3])
    if node.target is aten.slice_backward.default:
        return find_slice(arguments[1], *arguments[2:])
    return None


def find_zeros(node: fx.Node, zeros: Axes) -> Axis | None:
    """The entry outside of which a result is zero."""
    shape = read_shape(node)
    if shape is None or node.op != "call_function":
        return None
    if node.target in (aten.select_backward.default, aten.slice_backward.default):
        return read_selection(node)
    operands = [value for value in node.args if isinstance(value, fx.Node)]
    if not any(operand in zeros for operand in operands):
        return None
    target, first = node.target, zeros.get(operands[0])
    if target in _EITHER_ZERO or target in _BOTH_ZERO:
        found = [_spread(zeros[value], value, shape) if value in zeros else None for value in operands]
        if target in _BOTH_ZERO:
            return found[0] if len(operands) == 2 and found[0] == found[1] else None
        return next((axis for axis in found if axis is not None), None)
    if target in (aten.mm.default, aten.bmm.default):
        return _find_zeros_of_product(node, zeros, len(shape))
    if first is None:
        return None
    if target in _KEEP_ZEROS or target in _COPIES or (target is aten.div.Tensor and len(operands) == 1):
        return first if first.fits(shape) else None
    if target is operator.getitem:
        return first if node.args[1] == 0 else None
    if target is aten.native_layer_norm_backward.default or target in _ALONG_BACKWARD:
        return first if _stays_apart(node, first) else None
    return _follow_layout(node, first)


def find_needed(node: fx.Node, axis: Axis, place: int) -> Axis | None:
    """The entry of an operand that is read if only one of the result is; nothing where more are, or none in particular.
    The operand is the argument at a place."""
    source, shape = node.args[place], read_shape(node)
    assert isinstance(source, fx.Node)
    assert shape is not None
    before = read_shape(source)
    if before is None:
        return None
    target = node.target
    if target in VIEWS:
        return follow_view(axis, shape, before)
    if target in TURNS:
        return axis.move(read_order(node)[axis.dim])
    if target in PRODUCTS:
        return _find_needed_of_product(node, axis, place)
    if target in _NORMS:
        return axis if place in _NORMS_ENTRIES[target] else None
    if target is operator.getitem or target in _ALONG:
        return axis
    moved = axis.move(axis.dim - len(shape) + len(before))
    return moved if moved.fits(before) else None


def can_narrow(node: fx.Node, axis: Axis) -> bool:
    """Whether one entry of a result can be computed alone."""
    shape = read_shape(node)
    if node.op != "call_function" or shape is None:
        return False
    if node.target is operator.getitem:
        source = node.args[0]
        if not isinstance(source, fx.Node):
            return False
        # In backward, what follows the gradient of the input are sums over all entries.
        return source.target is aten.native_layer_norm.default or bool(node.args[1] == 0 and source.target in _NORMS)
    if not axis.fits(shape):
        return False
    target = node.target
    if target in VIEWS or target in TURNS or target in PRODUCTS:
        places = [place for place, value in enumerate(node.args) if isinstance(value, fx.Node)]
        return any(find_needed(node, axis, place) for place in places)
    if target in _NORMS or target in _ALONG:
        return _stays_apart(node, axis)
    if target is random_bits:
        return axis.dim == len(shape) - 2
    return target in _COPIES or is_pointwise(node)


def find_contracted(node: fx.Node, zeros: Axes) -> tuple[Axis | None, Axis | None] | None:
    """For a product that adds up a dimension in which an operand is zero but for one entry: where that is, in both."""
    if node.target not in (aten.mm.default, aten.bmm.default):
        return None
    left, right = node.args
    assert isinstance(left, fx.Node)
    assert isinstance(right, fx.Node)
    rank = len(read_shape(node) or ())
    axis = zeros.get(left)
    if axis is not None and axis.dim == rank - 1:
        return axis, axis.move(rank - 2)
    axis = zeros.get(right)
    if axis is not None and axis.dim == rank - 2:
        return axis.move(rank - 1), axis
    return None


def sums_over(node: fx.Node, axis: Axis) -> bool:
    """Whether a node adds up the dimension of its operand that the entry lies in."""
    if node.target not in SUMS:
        return False
    dims: Any = node.args[1]  # none, or an empty list, stands for all
    rank = len(_read_operand(node))
    return not dims or axis.dim in [dim % rank for dim in dims]


def read_order(node: fx.Node) -> list[int]:
    """Which dimension of its operand each dimension of a result is."""
    rank, arguments = len(_read_operand(node)), node.args
    dims: Any
    if node.target is aten.permute.default:
        dims = arguments[1]
        return [dim % rank for dim in dims]
    order = list(range(rank))
    if rank > 1:
        dims = (0, 1) if node.target is aten.t.default else arguments[1:]
        one, other = (dim % rank for dim in dims)
        order[one], order[other] = order[other], order[one]
    return order


def _read_operand(node: fx.Node) -> tuple[int, ...]:
    source = node.args[0]
    assert isinstance(source, fx.Node)
    return read_shape(source) or ()


def _fill(arguments: tuple[Any, ...], defaults: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*arguments, *defaults[len(arguments) :])


def _spread(axis: Axis, source: fx.Node, shape: tuple[int, ...]) -> Axis | None:
    """The same entry in what an operand was broadcast to."""
    moved = axis.move(axis.dim + len(shape) - len(read_shape(source) or ()))
    return moved if moved.fits(shape) else None


def _stays_apart(node: fx.Node, axis: Axis) -> bool:
    """Whether an operator works along other dimensions than this one."""
    rank = len(read_shape(node) or ())
    target: Any = node.target
    if target in _NORMS:
        normalized: Any = node.args[_NORMS[target]]
        return axis.dim < rank - len(normalized)
    along: Any = node.args[_ALONG[target]]
    return bool(axis.dim != along % rank)


def _follow_layout(node: fx.Node, axis: Axis) -> Axis | None:
    shape = read_shape(node)
    assert shape is not None
    if node.target in VIEWS:
        return follow_view(axis, _read_operand(node), shape)
    return follow_order(axis, read_order(node)) if node.target in TURNS else None


def _find_zeros_of_product(node: fx.Node, zeros: Axes, rank: int) -> Axis | None:
    left, right = node.args
    assert isinstance(left, fx.Node)
    assert isinstance(right, fx.Node)
    axis = zeros.get(left)
    if axis is not None and axis.dim == rank - 2:
        return axis
    axis = zeros.get(right)
    return axis if axis is not None and axis.dim == rank - 1 else None


def _find_needed_of_product(node: fx.Node, axis: Axis, place: int) -> Axis | None:
    rank, added = len(read_shape(node) or ()), node.target is aten.addmm.default
    if axis.dim < rank - 2 or (added and axis.dim != 0):
        return None
    if added and place == 0:
        before = _read_operand(node)
        return axis if len(before) == rank and axis.fits(before) else None
    operand = place - 1 if added else place
    return axis if operand == axis.dim - (rank - 2) else None
