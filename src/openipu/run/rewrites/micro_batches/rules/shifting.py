"""Operators that work along given dimensions: each dimension moves one to the right.

In: an old node, and for its operator the names of the arguments that are dimensions or sizes. Out: the same operator on
[F, ...].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from openipu.run.rewrites.micro_batches.arguments import find_tensors, read_arguments, wrap_dimension
from openipu.run.rewrites.micro_batches.writer import BatchWriter, Value, read_shape

aten = torch.ops.aten


@dataclass(frozen=True)
class Shift:
    """What the arguments of an operator mean."""

    dimensions: tuple[str, ...] = ()  # one dimension, or a list of them
    sizes: tuple[str, ...] = ()  # a whole shape: F goes in front
    added: int = 0  # dimensions count in a result that has so many more
    smallest_rank: int = 1


_DIM = Shift(("dim",))
_BOTH = Shift(("dim0", "dim1"))
_DIAGONAL = Shift(("dim1", "dim2"))
_LAST_TWO = Shift(smallest_rank=2)

SHIFTS: dict[Any, Shift] = {
    # Views and copies of parts.
    aten.transpose.int: _BOTH,
    aten.unsqueeze.default: Shift(("dim",), added=1, smallest_rank=0),
    aten.select.int: _DIM,
    aten.slice.Tensor: _DIM,
    aten.split.Tensor: _DIM,
    aten.split_with_sizes.default: _DIM,
    aten.split_with_sizes_copy.default: _DIM,
    aten.unbind.int: _DIM,
    aten.squeeze.dim: _DIM,
    aten.squeeze.dims: _DIM,
    aten.diagonal.default: _DIAGONAL,
    aten.diag_embed.default: Shift(("dim1", "dim2"), added=1),
    aten.unfold.default: Shift(("dimension",)),
    aten.flip.default: Shift(("dims",)),
    aten.select_scatter.default: _DIM,
    aten.slice_scatter.default: _DIM,
    aten.select_backward.default: Shift(("dim",), ("input_sizes",), added=1, smallest_rank=0),
    aten.slice_backward.default: Shift(("dim",), ("input_sizes",)),
    aten.unfold_backward.default: Shift(("dim",), ("input_sizes",), added=-1),
    aten.diagonal_backward.default: Shift(("dim1", "dim2"), ("input_sizes",), added=1),
    aten.tril.default: _LAST_TWO,
    aten.triu.default: _LAST_TWO,
    aten.constant_pad_nd.default: Shift(),
    aten.pixel_shuffle.default: Shift(),
    aten.pixel_unshuffle.default: Shift(),
    aten.view_as_real.default: Shift(),
    aten.view_as_complex.default: Shift(),
    # Along one dimension.
    aten._softmax.default: _DIM,
    aten._safe_softmax.default: _DIM,
    aten._log_softmax.default: _DIM,
    aten._softmax_backward_data.default: _DIM,
    aten._log_softmax_backward_data.default: _DIM,
    aten.glu.default: _DIM,
    aten.glu_backward.default: _DIM,
    aten.cumsum.default: _DIM,
    aten.cumprod.default: _DIM,
    aten.logcumsumexp.default: _DIM,
    aten.cummax.default: _DIM,
    aten.cummin.default: _DIM,
    aten.sort.default: _DIM,
    aten.sort.stable: _DIM,
    aten.argsort.stable: _DIM,
    aten.topk.default: _DIM,
    aten.kthvalue.default: _DIM,
    aten.gather.default: _DIM,
    aten.scatter.src: _DIM,
    aten.scatter.value: _DIM,
    aten.scatter.reduce: _DIM,
    aten.scatter_add.default: _DIM,
    aten.scatter_reduce.two: _DIM,
}


def batch_shifted(writer: BatchWriter, node: fx.Node) -> Value | None:
    """The operator on [F, ...], with dimensions and sizes to match."""
    shift = SHIFTS[node.target]
    tensors = find_tensors(node)
    rank = len(read_shape(next(iter(tensors.values()))))
    if rank < shift.smallest_rank:
        return None
    arguments = read_arguments(node)
    changes: dict[str, Any] = {name: writer.lift(value) for name, value in tensors.items()}
    for name in shift.dimensions:
        changes[name] = shift_dimensions(arguments[name], rank + shift.added)
    for name in shift.sizes:
        changes[name] = [writer.factor, *arguments[name]]
    return writer.take_items(writer.repeat(node, changes))


def shift_dimensions(dimension: int | list[int], rank: int) -> int | list[int]:
    """Dimensions of a value without F, as those of a value with F."""
    if isinstance(dimension, int):
        return wrap_dimension(dimension, rank) + 1
    return [wrap_dimension(entry, rank) + 1 for entry in dimension]
