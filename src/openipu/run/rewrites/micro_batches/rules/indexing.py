"""Indexing with tensors.

In: an old node. Out: the same elements for each micro-batch. Where the indexed value is batched, the number of the
micro-batch is one more index.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from openipu.run.rewrites.micro_batches.arguments import read_arguments, wrap_dimension
from openipu.run.rewrites.micro_batches.writer import BatchWriter, Value, read_shape

aten = torch.ops.aten


def _batch_index_select(writer: BatchWriter, node: fx.Node) -> Value | None:
    arguments = read_arguments(node)
    source, index = arguments["self"], arguments["index"]
    rank = len(read_shape(source))
    if rank == 0 or len(read_shape(index)) != 1:
        return None
    dimension = wrap_dimension(arguments["dim"], rank)
    if not writer.is_batched(index):
        return writer.repeat(node, {"dim": dimension + 1})
    if writer.is_batched(source):
        return _select_rows(writer, node, source, index) if dimension == 0 else None
    picked = writer.repeat(node, {"dim": dimension, "index": writer.merge(writer.read_full(index))})
    shape = read_shape(node)
    spread = writer.view(picked, [*shape[:dimension], writer.factor, *shape[dimension:]])
    return move_to_front(writer, spread, dimension)


def _select_rows(writer: BatchWriter, node: fx.Node, source: fx.Node, index: fx.Node) -> fx.Node:
    """Rows of each micro-batch, by its own index: all rows are one list, in which those of a micro-batch come later."""
    picked = writer.repeat(
        node, {"self": writer.merge(writer.read_full(source)), "index": _count_on(writer, index, read_shape(source)[0])}
    )
    return writer.split(picked)


def _batch_index_add(writer: BatchWriter, node: fx.Node) -> Value | None:
    """`index_add` and `index_copy`: as messages are added to the nodes of a graph."""
    arguments = read_arguments(node)
    target, index, source = arguments["self"], arguments["index"], arguments["source"]
    rank = len(read_shape(target))
    if rank == 0 or len(read_shape(index)) != 1:
        return None
    dimension = wrap_dimension(arguments["dim"], rank)
    into, added = writer.lift(target), writer.lift(source)
    if not writer.is_batched(index):
        return writer.repeat(node, {"self": into, "dim": dimension + 1, "source": added})
    if dimension:
        return None
    changes = {
        "self": writer.merge(into),
        "dim": 0,
        "index": _count_on(writer, index, read_shape(target)[0]),
        "source": writer.merge(added),
    }
    return writer.split(writer.repeat(node, changes))


def _count_on(writer: BatchWriter, index: fx.Node, rows: int) -> fx.Node:
    """The indices of all micro-batches as one list, where each has so many rows."""
    full = writer.read_full(index)
    first = writer.call(aten.mul.Tensor, number_micro_batches(writer, 1), rows)
    return writer.merge(writer.call(aten.add.Tensor, full, first))


def _batch_index(writer: BatchWriter, node: fx.Node) -> Value | None:
    arguments = read_arguments(node)
    source, indices = arguments["self"], list(arguments["indices"])
    places = find_places(indices)
    if places is None:
        return None
    first, adjacent = places
    index_batched = any(writer.is_batched(index) for index in indices)
    rank = max(len(read_shape(index)) for index in indices if index is not None)
    new = [None if index is None else writer.align(index, rank) for index in indices]
    if not index_batched:
        # The indices' own dimensions come first where other dimensions lie between them.
        picked = writer.call(aten.index.Tensor, writer.read_full(source), [None, *new])
        return picked if adjacent else move_to_front(writer, picked, rank)
    if not writer.is_batched(source):
        picked = writer.call(aten.index.Tensor, writer.read_full(source), new)
        return move_to_front(writer, picked, first if adjacent else 0)
    number = number_micro_batches(writer, rank)
    picked = writer.call(aten.index.Tensor, writer.read_full(source), [number, *new])
    if first == 0 or not adjacent:
        return picked
    # [F, index dimensions, dimensions before them, dimensions behind them]
    order = [0, *range(1 + rank, 1 + rank + first), *range(1, 1 + rank)]
    order += range(1 + rank + first, len(read_shape(picked)))
    return writer.call(aten.permute.default, picked, order)


def _batch_index_put(writer: BatchWriter, node: fx.Node) -> Value | None:
    arguments = read_arguments(node)
    indices, values = list(arguments["indices"]), arguments["values"]
    places = find_places(indices)
    if places is None or not places[1]:
        return None
    first, _ = places
    index_rank = max(len(read_shape(index)) for index in indices if index is not None)
    new = [None if index is None else writer.align(index, index_rank) for index in indices]
    target = writer.lift(arguments["self"])
    # What is written has the shape of what the same indices would read.
    picked_rank = len(read_shape(arguments["self"])) - len([index for index in indices if index is not None])
    written = writer.align(values, picked_rank + index_rank)
    if not any(writer.is_batched(index) for index in indices):
        return writer.repeat(node, {"self": target, "indices": [None, *new], "values": written})
    if first > 0:
        return None
    number = number_micro_batches(writer, index_rank)
    return writer.repeat(node, {"self": target, "indices": [number, *new], "values": written})


def find_places(indices: list[fx.Node | None]) -> tuple[int, bool] | None:
    """The first indexed dimension, and whether all of them lie side by side; None for masks."""
    used = [place for place, index in enumerate(indices) if index is not None]
    masks = (torch.bool, torch.uint8)
    if not used or any(index is not None and index.meta["val"].dtype in masks for index in indices):
        return None
    return used[0], used[-1] - used[0] == len(used) - 1


def number_micro_batches(writer: BatchWriter, rank: int) -> fx.Node:
    """0 … F - 1 as an index, with as many dimensions behind it as the other indices have."""
    numbers = writer.call(aten.arange.default, writer.factor, dtype=torch.int64, device=torch.device("cpu"))
    return writer.view(numbers, [writer.factor, *[1] * rank])


def move_to_front(writer: BatchWriter, node: fx.Node, dimension: int) -> fx.Node:
    """Make the dimension of the micro-batches the first one."""
    if dimension == 0:
        return node
    rank = len(read_shape(node))
    order = [dimension, *(entry for entry in range(rank) if entry != dimension)]
    return writer.call(aten.permute.default, node, order)


INDEXING: dict[Any, Any] = {
    aten.index_select.default: _batch_index_select,
    aten.index_add.default: _batch_index_add,
    aten.index_copy.default: _batch_index_add,
    aten.index.Tensor: _batch_index,
    aten.index_put.default: _batch_index_put,
}
