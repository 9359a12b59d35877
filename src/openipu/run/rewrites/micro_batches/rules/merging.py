"""Operators whose dimension 0 is a batch: micro-batches are put together along it.

In: an old node of shape [b, ...]. Out: the same operator on [F * b, ...], cut into [F, b, ...] again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from openipu.run.rewrites.micro_batches.arguments import find_tensors, read_arguments
from openipu.run.rewrites.micro_batches.writer import BatchWriter, Value, read_shape

aten = torch.ops.aten


@dataclass(frozen=True)
class Merge:
    """Which arguments have the batch."""

    tensors: tuple[str, ...]
    rank: int  # of the first of them, with its batch; one less means that there is none
    sizes: tuple[str, ...] = ()  # whole shapes, with the batch in front


def _pool(rank: int) -> Merge:
    return Merge(("self",), rank)


def _pool_back(rank: int, *more: str) -> Merge:
    return Merge(("grad_output", "self", *more), rank)


def _resize_back(rank: int) -> Merge:
    return Merge(("grad_output",), rank, ("input_size",))


MERGES: dict[Any, Merge] = {
    aten.max_pool2d_with_indices.default: _pool(4),
    aten.max_pool2d_with_indices_backward.default: _pool_back(4, "indices"),
    aten.max_pool3d_with_indices.default: _pool(5),
    aten.max_pool3d_with_indices_backward.default: _pool_back(5, "indices"),
    aten.avg_pool1d.default: _pool(3),
    aten.avg_pool2d.default: _pool(4),
    aten.avg_pool2d_backward.default: _pool_back(4),
    aten.avg_pool3d.default: _pool(5),
    aten.avg_pool3d_backward.default: _pool_back(5),
    aten._adaptive_avg_pool2d.default: _pool(4),
    aten._adaptive_avg_pool2d_backward.default: _pool_back(4),
    aten._adaptive_avg_pool3d.default: _pool(5),
    aten._adaptive_avg_pool3d_backward.default: _pool_back(5),
    aten.adaptive_max_pool2d.default: _pool(4),
    aten.adaptive_max_pool2d_backward.default: _pool_back(4, "indices"),
    aten.upsample_nearest1d.default: _pool(3),
    aten.upsample_nearest1d_backward.default: _resize_back(3),
    aten.upsample_nearest2d.default: _pool(4),
    aten.upsample_nearest2d_backward.default: _resize_back(4),
    aten.upsample_linear1d.default: _pool(3),
    aten.upsample_linear1d_backward.default: _resize_back(3),
    aten.upsample_bilinear2d.default: _pool(4),
    aten.upsample_bilinear2d_backward.default: _resize_back(4),
    aten.upsample_bicubic2d.default: _pool(4),
    aten.upsample_bicubic2d_backward.default: _resize_back(4),
    aten.reflection_pad1d.default: _pool(3),
    aten.reflection_pad1d_backward.default: _pool_back(3),
    aten.reflection_pad2d.default: _pool(4),
    aten.reflection_pad2d_backward.default: _pool_back(4),
    aten.replication_pad1d.default: _pool(3),
    aten.replication_pad1d_backward.default: _pool_back(3),
    aten.replication_pad2d.default: _pool(4),
    aten.replication_pad2d_backward.default: _pool_back(4),
    aten.grid_sampler_2d.default: Merge(("input", "grid"), 4),
    aten.grid_sampler_2d_backward.default: Merge(("grad_output", "input", "grid"), 4),
    aten.channel_shuffle.default: _pool(4),
    aten.im2col.default: _pool(4),
    aten.col2im.default: _pool(3),
}


def batch_merged(writer: BatchWriter, node: fx.Node) -> Value | None:
    """The operator on the merged batch."""
    merge = MERGES[node.target]
    arguments = read_arguments(node)
    rank = len(read_shape(arguments[merge.tensors[0]]))
    others = {name: value for name, value in find_tensors(node).items() if name not in merge.tensors}
    if rank not in (merge.rank, merge.rank - 1) or any(writer.is_batched(value) for value in others.values()):
        return None
    lifted = {name: writer.lift(arguments[name]) for name in merge.tensors}
    if rank < merge.rank:
        return None if merge.sizes else writer.take_items(writer.repeat(node, lifted))
    changes: dict[str, Any] = {name: writer.merge(value) for name, value in lifted.items()}
    for name in merge.sizes:
        batch, *rest = arguments[name]
        changes[name] = [batch * writer.factor, *rest]
    return split_items(writer, writer.repeat(node, changes))


def split_items(writer: BatchWriter, node: fx.Node) -> Value:
    """Every result cut into micro-batches again."""
    items = writer.take_items(node)
    if isinstance(items, fx.Node):
        return writer.split(items)
    return tuple(None if item is None else writer.split(item) for item in items)
