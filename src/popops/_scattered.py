"""Slices at many places at once, as XLA describes them; single elements of rows.

In: a tensor, indices, and which dimension of what is which. Out: a tensor, or changes in place. A slice that would
reach over an edge begins earlier, as with `dynamicSlice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from poplar import Graph, Tensor, Type
from poplar._errors import poplar_error
from poplar._library import Target, call_library
from poplar._linear import mapTensorLinearly


def createGatherInput(graph: Graph, element: Type, shape: Sequence[int], *rest: Any, name: str = "") -> Tensor:
    """A tensor to gather from: `(graph, type, shape, axis)`, or `(graph, type, shape, sliceSizes, startIndexMap)`."""
    label = name or next((value for value in rest if isinstance(value, str) and value), "gather input")
    made = graph.addVariable(element, list(shape), label)
    mapTensorLinearly(graph, made)
    return made


def gather(graph: Graph, tensor: Tensor, indices: Tensor, *rest: Any, name: str = "") -> Tensor:
    """Entries by index along a dimension: `(graph, t, indices, axis, prog)`; or slices at many places:

    `(graph, t, indices, indexVectorDim, offsetDims, sliceSizes, collapsedSliceDims, startIndexMap, prog)`.
    """
    if len(rest) > 2 and isinstance(rest[1], (list, tuple)):
        return _gather_slices(graph, tensor, indices, *rest[:6], name=name or _find_name(rest[6:]))
    axis, prog = int(rest[0]), rest[1]

    def traced(whole: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        rows = torch.clamp(places.reshape(-1).to(torch.int64), 0, whole.shape[axis] - 1)
        found = torch.index_select(whole, axis, rows)
        return found.reshape([*whole.shape[:axis], *places.shape, *whole.shape[axis + 1 :]])

    types, label = [tensor.elementType()], name or _find_name(rest[2:])
    return call_library(graph, prog, "popops::gather", traced, [tensor, indices], types=types, name=label)[0]


def _find_name(rest: tuple[Any, ...]) -> str:
    return next((value for value in rest if isinstance(value, str)), "")


def _list_starts(indices: torch.Tensor, vector_dim: int) -> tuple[torch.Tensor, list[int]]:
    """[places, numbers of each], and the shape of the places."""
    if vector_dim == indices.dim():
        indices = indices.unsqueeze(-1)
    moved = torch.movedim(indices.to(torch.int64), vector_dim, -1)
    return moved.reshape(-1, moved.shape[-1]), list(moved.shape[:-1])


def _list_windows(
    starts: torch.Tensor, shape: Sequence[int], sizes: Sequence[int], dims: Sequence[int]
) -> list[torch.Tensor]:
    """For each dimension of a tensor, indices [places, 1, …, size, …, 1] of the windows that begin at `starts`."""
    found = []
    rank = len(shape)
    for dimension, (extent, size) in enumerate(zip(shape, sizes, strict=True)):
        inside = torch.arange(size, dtype=torch.int64).reshape(
            [1, *(size if d == dimension else 1 for d in range(rank))]
        )
        if dimension in dims:
            first = torch.clamp(starts[:, list(dims).index(dimension)], 0, extent - size)
            inside = inside + first.reshape([-1, *[1] * rank])
        found.append(inside)
    return found


def _gather_slices(
    graph: Graph,
    tensor: Tensor,
    indices: Tensor,
    indexVectorDim: int,
    offsetDims: Sequence[int],
    sliceSizes: Sequence[int],
    collapsedSliceDims: Sequence[int],
    startIndexMap: Sequence[int],
    prog: Target,
    *,
    name: str = "",
) -> Tensor:
    shape, sizes = tensor.shape(), [int(size) for size in sliceSizes]
    if len(sizes) != len(shape) or any(size > extent for size, extent in zip(sizes, shape, strict=False)):
        raise poplar_error(f"gather: slices of {sizes} do not fit a tensor of {shape}.")
    kept = [size for dimension, size in enumerate(sizes) if dimension not in collapsedSliceDims]
    if len(offsetDims) != len(kept):
        raise poplar_error(f"gather: slices have {len(kept)} dimensions, and offsetDims {len(offsetDims)}.")

    def traced(whole: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        starts, batch = _list_starts(places, indexVectorDim)
        found = whole[tuple(_list_windows(starts, shape, sizes, startIndexMap))].reshape([*batch, *kept])
        rank = len(batch) + len(kept)
        rest = iter(range(len(batch)))
        order = [
            len(batch) + list(offsetDims).index(dimension) if dimension in offsetDims else next(rest)
            for dimension in range(rank)
        ]
        return found.permute(order).contiguous()

    types = [tensor.elementType()]
    return call_library(graph, prog, "popops::gather", traced, [tensor, indices], types=types, name=name)[0]


def scatter(graph: Graph, tensor: Tensor, indices: Tensor, updates: Tensor, *rest: Any, name: str = "") -> None:
    """Write entries by index: `(graph, t, indices, updates, axis, prog)`; or windows at many places:

    `(graph, t, indices, updates, indexVectorDim, updateWindowDims, insertWindowDims, scatterDimsToOperandDims, prog)`.
    Of several updates of one element the last one counts.
    """
    if len(rest) > 2 and isinstance(rest[1], (list, tuple)):
        _scatter_windows(graph, tensor, indices, updates, *rest[:5], name=name or _find_name(rest[5:]))
        return
    axis, prog = int(rest[0]), rest[1]

    def traced(whole: torch.Tensor, places: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        rows = places.reshape(-1).to(torch.int64)
        return torch.index_copy(whole, axis, rows, new.reshape([*whole.shape[:axis], -1, *whole.shape[axis + 1 :]]))

    operands, label = [tensor, indices, updates], name or _find_name(rest[2:])
    call_library(graph, prog, "popops::scatter", traced, operands, outputs=[tensor], name=label)


def _scatter_windows(
    graph: Graph,
    tensor: Tensor,
    indices: Tensor,
    updates: Tensor,
    indexVectorDim: int,
    updateWindowDims: Sequence[int],
    insertWindowDims: Sequence[int],
    scatterDimsToOperandDims: Sequence[int],
    prog: Target,
    *,
    name: str = "",
) -> None:
    shape = tensor.shape()
    windows = [updates.dim(dimension) for dimension in updateWindowDims]
    if len(windows) + len(insertWindowDims) != len(shape):
        raise poplar_error(
            f"scatter: windows of {len(windows)} dimensions and {len(insertWindowDims)} inserted ones are not the "
            f"{len(shape)} of the tensor."
        )
    given = iter(windows)
    sizes = [1 if dimension in insertWindowDims else next(given) for dimension in range(len(shape))]

    def traced(whole: torch.Tensor, places: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        starts, _ = _list_starts(places, indexVectorDim)
        batch = [dimension for dimension in range(new.dim()) if dimension not in updateWindowDims]
        values = new.permute([*batch, *updateWindowDims]).reshape([-1, *sizes])
        return torch.index_put(whole, tuple(_list_windows(starts, shape, sizes, scatterDimsToOperandDims)), values)

    operands = [tensor, indices, updates]
    call_library(graph, prog, "popops::scatter", traced, operands, outputs=[tensor], name=name)


MASKED_LABEL_CODE = 0xFFFFFFFF


def selectScalarFromRows(graph: Graph, params: Tensor, indices: Tensor, prog: Target, name: str = "") -> Tensor:
    """One element of each row of [rows, columns]; 0 where the index is masked, NaN where it is outside."""

    def traced(rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        wide = places.to(torch.int64)
        held = torch.clamp(wide, 0, rows.shape[1] - 1)
        found = torch.gather(rows, 1, held.unsqueeze(1)).squeeze(1)
        outside = torch.where(wide == MASKED_LABEL_CODE, 0.0, torch.nan).to(rows.dtype)
        return torch.where(held == wide, found, outside)

    operands, types = [params, indices], [params.elementType()]
    return call_library(graph, prog, "popops::selectScalarFromRows", traced, operands, types=types, name=name)[0]


def updateScalarInRows(graph: Graph, params: Tensor, indices: Tensor, prog: Target, name: str = "") -> None:
    """Subtract 1 from one element of each row. A masked row stays; one whose index is outside of it becomes NaN."""

    def traced(rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        wide = places.to(torch.int64).unsqueeze(1)
        columns = torch.arange(rows.shape[1], dtype=torch.int64)
        new = rows - (wide == columns).to(rows.dtype)
        outside = (wide >= rows.shape[1]) & (wide != MASKED_LABEL_CODE)
        return torch.where(outside, torch.nan, new).to(rows.dtype)

    call_library(graph, prog, "popops::updateScalarInRows", traced, [params, indices], outputs=[params], name=name)
