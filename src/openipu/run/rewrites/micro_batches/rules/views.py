"""Views, copies and joins that need more than a shift of dimensions.

In: an old node. Out: the value as [F, ...].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from openipu.run.rewrites.micro_batches.arguments import read_arguments
from openipu.run.rewrites.micro_batches.rules.shifting import shift_dimensions
from openipu.run.rewrites.micro_batches.writer import BatchWriter, Value, has_rows_in_line, read_shape

aten = torch.ops.aten


# What reads a matrix by rows, or hands it to something that does.
_MATRIX_READERS = frozenset({aten.mm.default, aten.addmm.default, aten.t.default})


def _batch_view(writer: BatchWriter, node: fx.Node) -> Value:
    value = writer.view(_read_first(writer, node), [writer.factor, *read_shape(node)])
    if len(read_shape(node)) != 2 or has_rows_in_line(value):
        return value
    if any(user.target in _MATRIX_READERS for user in node.users):
        # One copy here spares one at each product.
        return writer.call(aten.clone.default, value, memory_format=torch.contiguous_format)
    return value


def _batch_same(writer: BatchWriter, node: fx.Node) -> Value:
    return _read_first(writer, node)


def _batch_expand(writer: BatchWriter, node: fx.Node) -> Value:
    source = node.args[0]
    assert isinstance(source, fx.Node)
    shape = read_shape(node)
    return writer.call(aten.expand.default, writer.align(source, len(shape)), [writer.factor, *shape])


def _batch_permute(writer: BatchWriter, node: fx.Node) -> Value:
    dimensions = shift_dimensions(list(read_arguments(node)["dims"]), len(read_shape(node)))
    assert isinstance(dimensions, list)
    return writer.call(aten.permute.default, _read_first(writer, node), [0, *dimensions])


def _batch_transposition(writer: BatchWriter, node: fx.Node) -> Value:
    source = _read_first(writer, node)
    return writer.call(aten.transpose.int, source, 1, 2) if len(read_shape(node)) == 2 else source


def _batch_roll(writer: BatchWriter, node: fx.Node) -> Value:
    arguments = read_arguments(node)
    source, dimensions = _read_first(writer, node), list(arguments["dims"])
    if dimensions:
        shifted = shift_dimensions(dimensions, len(read_shape(node)))
        return writer.call(aten.roll.default, source, arguments["shifts"], shifted)
    flat = writer.call(aten.roll.default, writer.flatten(source), arguments["shifts"], [1])
    return writer.view(flat, [writer.factor, *read_shape(node)])


def _batch_repeat(writer: BatchWriter, node: fx.Node) -> Value:
    arguments = read_arguments(node)
    repeats = list(arguments["repeats"])
    return writer.call(aten.repeat.default, writer.align(arguments["self"], len(repeats)), [1, *repeats])


def _batch_cat(writer: BatchWriter, node: fx.Node) -> Value:
    arguments = read_arguments(node)
    # PyTorch skips empty vectors, whatever the rank of the others.
    rank = len(read_shape(node))
    parts = [part for part in arguments["tensors"] if len(read_shape(part)) == rank]
    dimension = shift_dimensions(arguments["dim"], rank)
    return writer.call(aten.cat.default, [writer.lift(part) for part in parts], dimension)


def _batch_stack(writer: BatchWriter, node: fx.Node) -> Value:
    arguments = read_arguments(node)
    dimension = shift_dimensions(arguments["dim"], len(read_shape(node)))
    return writer.call(aten.stack.default, [writer.lift(part) for part in arguments["tensors"]], dimension)


def _batch_other_format(writer: BatchWriter, node: fx.Node) -> Value | None:
    """The same bits read as another format of the same width."""
    source = node.args[0]
    assert isinstance(source, fx.Node)
    if source.meta["val"].dtype.itemsize != node.meta["val"].dtype.itemsize:
        return None
    return writer.repeat(node)


def _read_first(writer: BatchWriter, node: fx.Node) -> fx.Node:
    source = node.args[0]
    assert isinstance(source, fx.Node)
    return writer.read_full(source)


VIEWS: dict[Any, Any] = {
    aten.view.default: _batch_view,
    aten._unsafe_view.default: _batch_view,
    aten.reshape.default: _batch_view,
    aten.squeeze.default: _batch_view,
    aten.expand.default: _batch_expand,
    aten.permute.default: _batch_permute,
    aten.t.default: _batch_transposition,
    aten.alias.default: _batch_same,
    aten.detach.default: _batch_same,
    aten.lift_fresh_copy.default: _batch_same,
    aten.roll.default: _batch_roll,
    aten.repeat.default: _batch_repeat,
    aten.cat.default: _batch_cat,
    aten.stack.default: _batch_stack,
    aten.view.dtype: _batch_other_format,
}
