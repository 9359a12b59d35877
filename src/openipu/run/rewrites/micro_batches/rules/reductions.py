"""Sums, means, extremes and norms: always over the dimensions of one micro-batch.

In: an old node. Out: one result for each micro-batch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from openipu.run.rewrites.micro_batches.arguments import read_arguments, wrap_dimension
from openipu.run.rewrites.micro_batches.writer import BatchWriter, Value, read_shape

aten = torch.ops.aten

# Over a list of dimensions; none or an empty list means all of them.
_BY_LIST = (
    aten.sum.dim_IntList,
    aten.mean.dim,
    aten.amax.default,
    aten.amin.default,
    aten.any.dims,
    aten.all.dims,
    aten.var.correction,
    aten.std.correction,
    aten.var_mean.correction,
    aten.std_mean.correction,
    aten.logsumexp.default,
    aten.linalg_vector_norm.default,
    aten.norm.ScalarOpt_dim,
)
# Over one dimension; none means all of them, as one.
_BY_ONE = (
    aten.any.dim,
    aten.all.dim,
    aten.argmax.default,
    aten.argmin.default,
    aten.max.dim,
    aten.min.dim,
    aten.prod.dim_int,
    aten.median.dim,
)
# Over all dimensions: the same as these over a list.
_WHOLE: dict[Any, Any] = {
    aten.sum.default: aten.sum.dim_IntList,
    aten.mean.default: aten.mean.dim,
    aten.max.default: aten.amax.default,
    aten.min.default: aten.amin.default,
    aten.any.default: aten.any.dims,
    aten.all.default: aten.all.dims,
}


def _batch_by_list(writer: BatchWriter, node: fx.Node) -> Value:
    arguments = read_arguments(node)
    source, rank = _read_source(writer, node)
    chosen = arguments["dim"]
    if chosen is None or (not isinstance(chosen, int) and not chosen):
        dimensions = list(range(1, rank + 1))
    else:
        dimensions = [wrap_dimension(entry, rank) + 1 for entry in ([chosen] if isinstance(chosen, int) else chosen)]
    changes = {"self": source, "dim": dimensions}
    if not read_shape(arguments["self"]) and "keepdim" in arguments:
        changes["keepdim"] = False
    return writer.take_items(writer.repeat(node, changes))


def _batch_by_one(writer: BatchWriter, node: fx.Node) -> Value | None:
    arguments = read_arguments(node)
    if not read_shape(arguments["self"]):
        return None
    source = writer.read_full(arguments["self"])
    if arguments["dim"] is not None:
        dimension = wrap_dimension(arguments["dim"], len(read_shape(arguments["self"]))) + 1
        return writer.take_items(writer.repeat(node, {"self": source, "dim": dimension}))
    flat = writer.repeat(node, {"self": writer.flatten(source), "dim": 1, "keepdim": False})
    return writer.view(flat, [writer.factor, *read_shape(node)])


def _batch_whole(writer: BatchWriter, node: fx.Node) -> Value:
    source, rank = _read_source(writer, node)
    kwargs = {"dtype": node.kwargs["dtype"]} if node.kwargs.get("dtype") is not None else {}
    return writer.call(_WHOLE[node.target], source, list(range(1, rank + 1)), **kwargs)


def _read_source(writer: BatchWriter, node: fx.Node) -> tuple[fx.Node, int]:
    """The value with at least one dimension behind F: a list of no dimensions would mean all of them, F included."""
    source = node.args[0]
    assert isinstance(source, fx.Node)
    rank = max(len(read_shape(source)), 1)
    return writer.align(source, rank), rank


REDUCTIONS: dict[Any, Any] = {
    **dict.fromkeys(_BY_LIST, _batch_by_list),
    **dict.fromkeys(_BY_ONE, _batch_by_one),
    **dict.fromkeys(_WHOLE, _batch_whole),
}
