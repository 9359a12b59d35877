"""Sums over the micro-batches, as gradients need them, without computing each summand.

In: an old node whose sum over the micro-batches is wanted. Out: what of its operands that takes (their own sums, or
their batched values), and the operator that gives the sum. Where no rule fits, the batched value is summed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from openipu.run.rewrites.micro_batches.arguments import read_arguments, wrap_dimension
from openipu.run.rewrites.micro_batches.rules.indexing import find_places
from openipu.run.rewrites.micro_batches.writer import BatchWriter, read_shape

aten = torch.ops.aten

IsBatched = Callable[[Any], bool]


@dataclass(frozen=True)
class Needs:
    """Operands whose sums are needed, and those whose values are."""

    totals: tuple[fx.Node, ...] = ()
    values: tuple[fx.Node, ...] = ()


@dataclass(frozen=True)
class TotalRule:
    """`need` gives None where the rule does not fit the node."""

    need: Callable[[fx.Node, IsBatched], Needs | None]
    write: Callable[[BatchWriter, fx.Node], fx.Node]


# Linear in the first operand: the sum of the results is the result of the sum.


def _need_first(node: fx.Node, is_batched: IsBatched) -> Needs | None:
    if node.target is aten.constant_pad_nd.default and read_arguments(node)["value"] != 0:
        return None
    return Needs(totals=(node.all_input_nodes[0],))


def _write_first(writer: BatchWriter, node: fx.Node) -> fx.Node:
    source = node.all_input_nodes[0]
    return _redo(writer, node, {source: writer.read_total(source)})


def _write_view(writer: BatchWriter, node: fx.Node) -> fx.Node:
    return writer.view(writer.read_total(node.all_input_nodes[0]), read_shape(node))


# Linear in all operands together.


def _need_all(node: fx.Node, is_batched: IsBatched) -> Needs | None:
    if not all(isinstance(value, fx.Node) for value in node.args[:2]) and node.target in _SUMS:
        return None
    return Needs(totals=tuple(node.all_input_nodes))


def _write_all(writer: BatchWriter, node: fx.Node) -> fx.Node:
    return _redo(writer, node, {source: writer.read_total(source) for source in node.all_input_nodes})


# Products with something that all micro-batches share.


def _need_factor(node: fx.Node, is_batched: IsBatched) -> Needs | None:
    left, right = node.args[:2]
    if is_batched(left) and not is_batched(right):
        return _need_one(left, right)
    if is_batched(right) and not is_batched(left) and node.target not in _QUOTIENTS:
        return _need_one(right, left)
    return None


def _need_one(total: Any, value: Any) -> Needs:
    return Needs(totals=(total,), values=(value,) if isinstance(value, fx.Node) else ())


def _write_factor(writer: BatchWriter, node: fx.Node) -> fx.Node:
    changed = {source: writer.read_total(source) for source in node.all_input_nodes if writer.is_batched(source)}
    return _redo(writer, node, changed)


# Matrix products of two batched operands: one product over all their inner dimensions.


def _need_product(node: fx.Node, is_batched: IsBatched) -> Needs | None:
    return _need_factor(node, is_batched) or Needs(values=tuple(node.all_input_nodes))


def _write_product(writer: BatchWriter, node: fx.Node) -> fx.Node:
    left, right = node.args
    assert isinstance(left, fx.Node)
    assert isinstance(right, fx.Node)
    if not (writer.is_batched(left) and writer.is_batched(right)):
        return _write_factor(writer, node)
    if node.target is aten.mm.default:
        columns = writer.call(aten.permute.default, writer.read_full(left), [1, 0, 2])
        rows = writer.merge(writer.read_full(right))
    else:
        columns = writer.call(aten.permute.default, writer.read_full(left), [1, 2, 0, 3])
        rows = writer.call(aten.permute.default, writer.read_full(right), [1, 0, 2, 3])
        rows = _join_dimensions(writer, rows, 1)
    columns = _join_dimensions(writer, columns, len(read_shape(columns)) - 2)
    return writer.call(aten.mm.default if len(read_shape(rows)) == 2 else aten.bmm.default, columns, rows)


def _join_dimensions(writer: BatchWriter, node: fx.Node, first: int) -> fx.Node:
    shape = read_shape(node)
    return writer.view(node, [*shape[:first], shape[first] * shape[first + 1], *shape[first + 2 :]])


# Sums: over the micro-batches as well.


def _need_values(node: fx.Node, is_batched: IsBatched) -> Needs | None:
    return Needs(values=tuple(node.all_input_nodes))


def _write_sum(writer: BatchWriter, node: fx.Node) -> fx.Node:
    arguments = read_arguments(node)
    source = arguments["self"]
    rank = len(read_shape(source))
    chosen = arguments.get("dim") or range(rank)
    dimensions = [0, *(wrap_dimension(entry, rank) + 1 for entry in chosen if rank)]
    kwargs = {"dtype": arguments["dtype"]} if arguments["dtype"] is not None else {}
    total = writer.call(aten.sum.dim_IntList, writer.read_full(source), dimensions, **kwargs)
    return writer.view(total, read_shape(node))


# Gradients of tables.


def _need_embedding(node: fx.Node, is_batched: IsBatched) -> Needs | None:
    arguments = read_arguments(node)
    if arguments["scale_grad_by_freq"]:
        return None
    grad, indices = arguments["grad_output"], arguments["indices"]
    if not is_batched(indices):
        return Needs(totals=(grad,), values=(indices,))
    return Needs(values=(grad, indices))


def _write_embedding(writer: BatchWriter, node: fx.Node) -> fx.Node:
    arguments = read_arguments(node)
    grad, indices = arguments["grad_output"], arguments["indices"]
    if not writer.is_batched(indices):
        return writer.repeat(node, {"grad_output": writer.read_total(grad)})
    return writer.repeat(node, {"grad_output": writer.lift(grad), "indices": writer.lift(indices)})


def _need_index_put(node: fx.Node, is_batched: IsBatched) -> Needs | None:
    """Adding rows at indices to something shared; other uses are rare."""
    arguments = read_arguments(node)
    indices, values = list(arguments["indices"]), arguments["values"]
    places = find_places(indices)
    if not arguments["accumulate"] or is_batched(arguments["self"]) or places is None:
        return None
    if not any(is_batched(index) for index in indices):
        return Needs(totals=(arguments["self"], values), values=tuple(index for index in indices if index is not None))
    rank = max(len(read_shape(index)) for index in indices if index is not None)
    picked = len(read_shape(arguments["self"])) - sum(index is not None for index in indices) + rank
    # Indices from dimension 0 on put their own dimensions first, and so F, in what is written.
    if places != (0, True) or len(read_shape(values)) != picked:
        return None
    used = tuple(index for index in indices if index is not None)
    return Needs(totals=(arguments["self"],), values=(*used, values))


def _write_index_put(writer: BatchWriter, node: fx.Node) -> fx.Node:
    arguments = read_arguments(node)
    indices, values = list(arguments["indices"]), arguments["values"]
    base = writer.read_total(arguments["self"])
    if not any(writer.is_batched(index) for index in indices):
        return writer.repeat(node, {"self": base, "values": writer.read_total(values)})
    rank = max(len(read_shape(index)) for index in indices if index is not None)
    new = [None if index is None else writer.align(index, rank) for index in indices]
    return writer.repeat(node, {"self": base, "indices": new, "values": writer.lift(values)})


def _redo(writer: BatchWriter, node: fx.Node, new: dict[fx.Node, fx.Node]) -> fx.Node:
    """The operator as it was, on new operands of the old shapes."""
    args, kwargs = fx.map_arg(
        (node.args, node.kwargs), lambda source: new[source] if source in new else writer.read_full(source)
    )
    assert isinstance(node.target, torch._ops.OpOverload)
    return writer.call(node.target, *args, **kwargs)


_FIRST, _VIEW = TotalRule(_need_first, _write_first), TotalRule(_need_first, _write_view)
_ALL, _FACTOR = TotalRule(_need_all, _write_all), TotalRule(_need_factor, _write_factor)
_SUMS = (aten.add.Tensor, aten.sub.Tensor)
_QUOTIENTS = (aten.div.Tensor, aten.div.Scalar)

TOTALS: dict[Any, TotalRule] = {
    **dict.fromkeys((aten.view.default, aten._unsafe_view.default), _VIEW),
    **dict.fromkeys(
        (
            aten.t.default,
            aten.transpose.int,
            aten.permute.default,
            aten.expand.default,
            aten.unsqueeze.default,
            aten.squeeze.default,
            aten.squeeze.dim,
            aten.squeeze.dims,
            aten.select.int,
            aten.slice.Tensor,
            aten.clone.default,
            aten.neg.default,
            aten.select_backward.default,
            aten.slice_backward.default,
            aten.constant_pad_nd.default,
        ),
        _FIRST,
    ),
    **dict.fromkeys((*_SUMS, aten.cat.default, aten.stack.default), _ALL),
    **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar, *_QUOTIENTS), _FACTOR),
    **dict.fromkeys((aten.mm.default, aten.bmm.default), TotalRule(_need_product, _write_product)),
    **dict.fromkeys((aten.sum.default, aten.sum.dim_IntList), TotalRule(_need_values, _write_sum)),
    aten.embedding_dense_backward.default: TotalRule(_need_embedding, _write_embedding),
    aten.index_put.default: TotalRule(_need_index_put, _write_index_put),
}
