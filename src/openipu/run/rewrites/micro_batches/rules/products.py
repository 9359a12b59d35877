"""Matrix products.

In: an old node. Out: one large product where the micro-batches share an operand (their rows are put together), else a
batched one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from openipu.run.rewrites.micro_batches.arguments import read_arguments
from openipu.run.rewrites.micro_batches.writer import BatchWriter, Value, has_rows_in_line, read_shape

aten = torch.ops.aten


def _batch_mm(writer: BatchWriter, node: fx.Node) -> Value:
    left, right = node.args
    assert isinstance(left, fx.Node)
    assert isinstance(right, fx.Node)
    if writer.is_batched(left) and not writer.is_batched(right) and has_rows_in_line(writer.read_full(left)):
        return writer.split(writer.call(aten.mm.default, writer.merge(writer.read_full(left)), writer.read_full(right)))
    return writer.call(aten.bmm.default, writer.lift(left), writer.lift(right))


def _batch_addmm(writer: BatchWriter, node: fx.Node) -> Value | None:
    arguments = read_arguments(node)
    bias, left, right = arguments["self"], arguments["mat1"], arguments["mat2"]
    shared = not writer.is_batched(bias) and not writer.is_batched(right)
    same_for_rows = len(read_shape(bias)) < 2 or read_shape(bias)[0] == 1
    if shared and same_for_rows and has_rows_in_line(writer.read_full(left)):
        return writer.split(writer.repeat(node, {"mat1": writer.merge(writer.read_full(left))}))
    added = writer.align(bias, 2)
    if len(read_shape(added)) < 3:
        added = writer.call(aten.expand.default, added, [writer.factor, *read_shape(node)])
    scales = {"beta": arguments["beta"], "alpha": arguments["alpha"]}
    return writer.call(aten.baddbmm.default, added, writer.lift(left), writer.lift(right), **scales)


def _batch_bmm(writer: BatchWriter, node: fx.Node) -> Value:
    left, right = node.args
    assert isinstance(left, fx.Node)
    assert isinstance(right, fx.Node)
    if read_shape(left)[0] == 1 and writer.is_batched(left) and not writer.is_batched(right):
        rows = writer.call(aten.squeeze.dim, writer.read_full(left), 1)
        if has_rows_in_line(rows):
            matrix = writer.call(aten.squeeze.dim, writer.read_full(right), 0)
            product = writer.call(aten.mm.default, writer.merge(rows), matrix)
            return writer.view(product, [writer.factor, *read_shape(node)])
    return writer.split(writer.call(aten.bmm.default, _merge_matrices(writer, left), _merge_matrices(writer, right)))


def _merge_matrices(writer: BatchWriter, node: fx.Node) -> fx.Node:
    """[F, b, m, n] as [F * b, m, n]. Where that takes a copy, later readers get it as well: often backward is one."""
    value = writer.lift(node)
    if has_rows_in_line(value):
        return writer.merge(value)
    turned = value.meta["val"].stride(2) == 1  # copied as it lies: a product reads either order
    if turned:
        value = writer.call(aten.transpose.int, value, 2, 3)
    value = writer.call(aten.clone.default, value, memory_format=torch.contiguous_format)
    if turned:
        value = writer.call(aten.transpose.int, value, 2, 3)
    if writer.is_batched(node):
        writer.set_full(node, value)
    return writer.merge(value)


def _batch_baddbmm(writer: BatchWriter, node: fx.Node) -> Value:
    arguments = read_arguments(node)
    bias = writer.align(arguments["self"], 3)
    bias = writer.call(aten.expand.default, bias, [writer.factor, *read_shape(node)])
    changes = {name: _merge_matrices(writer, arguments[name]) for name in ("batch1", "batch2")}
    return writer.split(writer.repeat(node, {"self": writer.merge(bias), **changes}))


def _batch_dot(writer: BatchWriter, node: fx.Node) -> Value:
    left, right = node.args
    product = writer.call(aten.mul.Tensor, writer.lift(left), writer.lift(right))  # type: ignore[arg-type]
    return writer.call(aten.sum.dim_IntList, product, [1])


def _batch_mv(writer: BatchWriter, node: fx.Node) -> Value:
    matrix, vector = node.args
    assert isinstance(matrix, fx.Node)
    assert isinstance(vector, fx.Node)
    column = writer.call(aten.unsqueeze.default, writer.lift(vector), 2)
    product = writer.call(aten.bmm.default, writer.lift(matrix), column)
    return writer.call(aten.squeeze.dim, product, 2)


PRODUCTS: dict[Any, Any] = {
    aten.mm.default: _batch_mm,
    aten.addmm.default: _batch_addmm,
    aten.bmm.default: _batch_bmm,
    aten.baddbmm.default: _batch_baddbmm,
    aten.dot.default: _batch_dot,
    aten.mv.default: _batch_mv,
}
