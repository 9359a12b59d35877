"""Slices whose place is known only while a program runs; rows by index; one-hot rows.

In: tensors and offset tensors. Out: tensors. An index outside of a tensor is held at its edge, as on an IPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as functional

from openipu.graph.mapped import UNSIGNED_INT, choose_format
from poplar import Graph, Tensor, Type
from poplar._errors import poplar_error
from poplar._library import Target, call_library
from poplar._linear import mapTensorLinearly


def createSliceableTensor(
    graph: Graph, element: Type, shape: Sequence[int], dims: Sequence[int], *rest: Any, name: str = ""
) -> Tensor:
    """A tensor that is cheap to slice along some dimensions."""
    return _create(
        graph, element, shape, name or next((value for value in rest if isinstance(value, str)), "sliceable")
    )


def _create(graph: Graph, element: Type, shape: Sequence[int], name: str) -> Tensor:
    made = graph.addVariable(element, list(shape), name)
    mapTensorLinearly(graph, made)
    return made


def createSliceTensor(graph: Graph, *rest: Any, name: str = "") -> Tensor:
    """A tensor for the result of `multiSlice`: `(graph, t, dims, sizes, count)` or `(graph, type, shape, …)`."""
    if isinstance(rest[0], Tensor):
        element, shape, given = rest[0].elementType(), rest[0].shape(), rest[1:]
    else:
        element, shape, given = rest[0], list(rest[1]), rest[2:]
    dims, sizes, count = given[0], given[1], int(given[2])
    for dimension, size in zip(dims, sizes, strict=True):
        shape[dimension] = size
    return _create(graph, element, [count, *shape], name or "slices")


def createIndicesTensor(graph: Graph, dims: Sequence[int], count: int, *rest: Any, name: str = "indices") -> Tensor:
    return _create(graph, UNSIGNED_INT, [count, len(dims)], name)


def _starts(offset: torch.Tensor, places: int, size: int, extent: int) -> torch.Tensor:
    """Rows `offset` to `offset + size`, held inside."""
    first = torch.clamp(offset.reshape(-1)[places].to(torch.int64), 0, extent - size)
    return first + torch.arange(size, dtype=torch.int64)


def dynamicSlice(
    graph: Graph,
    tensor: Tensor,
    offset: Tensor,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Target,
    name: str = "",
) -> Tensor:
    """A part of a tensor that begins at `offset`, one number for each of `dims`."""
    return _slice(graph, tensor, offset, dims, sizes, prog, name, None)


def _slice(
    graph: Graph,
    tensor: Tensor,
    offset: Tensor,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Target,
    name: str,
    out: Tensor | None,
) -> Tensor:
    def traced(whole: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        for place, (dimension, size) in enumerate(zip(dims, sizes, strict=True)):
            rows = _starts(places, place, size, whole.shape[dimension])
            whole = torch.index_select(whole, dimension, rows)
        return whole if dims else whole.clone()

    types, outputs = [tensor.elementType()], None if out is None else [out]
    operands = [tensor, offset]
    return call_library(graph, prog, "popops::dynamicSlice", traced, operands, outputs=outputs, types=types, name=name)[
        0
    ]


def dynamicSliceWithOutput(
    graph: Graph,
    output: Tensor,
    tensor: Tensor,
    offset: Tensor,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Target,
    name: str = "",
) -> None:
    """The same into a tensor of the user's."""
    _slice(graph, tensor, offset, dims, sizes, prog, name, output)


def createDynamicSliceOutput(
    graph: Graph, tensor: Tensor, offset: Tensor, dims: Sequence[int], sizes: Sequence[int], name: str = ""
) -> Tensor:
    """A tensor for `dynamicSliceWithOutput`."""
    shape = tensor.shape()
    for dimension, size in zip(dims, sizes, strict=True):
        shape[dimension] = size
    return _create(graph, tensor.elementType(), shape, name or "slice")


def createSliceableTensorFromSlice(
    graph: Graph, part: Tensor, dims: Sequence[int], numSlices: Sequence[int], name: str = ""
) -> Tensor:
    """A tensor of which `part` is one slice of so many along each of `dims`."""
    shape = part.shape()
    for dimension, count in zip(dims, numSlices, strict=True):
        shape[dimension] *= count
    return _create(graph, part.elementType(), shape, name or "sliceable")


def dynamicUpdate(
    graph: Graph,
    tensor: Tensor,
    part: Tensor,
    offset: Tensor,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Target,
    name: str = "",
) -> None:
    """Write a part of a tensor that begins at `offset`."""

    def traced(whole: torch.Tensor, new: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        indices: list[torch.Tensor | None] = []
        rank = whole.dim()
        for dimension in range(rank):
            if dimension in dims:
                place = list(dims).index(dimension)
                rows = _starts(places, place, sizes[place], whole.shape[dimension])
            else:
                rows = torch.arange(whole.shape[dimension], dtype=torch.int64)
            indices.append(rows.reshape([-1 if axis == dimension else 1 for axis in range(rank)]))
        return torch.index_put(whole, indices, new)

    call_library(graph, prog, "popops::dynamicUpdate", traced, [tensor, part, offset], outputs=[tensor], name=name)


def multiSlice(
    graph: Graph,
    tensor: Tensor,
    offset: Tensor,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Target,
    plan: Any = None,
    options: Any = None,
    name: str = "",
) -> Tensor:
    """Several slices, one for each row of `offset`, stacked in a new first dimension."""
    _check_rows("multiSlice", dims, sizes)

    def traced(whole: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        rows = torch.clamp(places.reshape(-1).to(torch.int64), 0, whole.shape[dims[0]] - 1)
        found = torch.index_select(whole, dims[0], rows)
        return torch.movedim(found, dims[0], 0).unsqueeze(dims[0] + 1)

    types = [tensor.elementType()]
    return call_library(graph, prog, "popops::multiSlice", traced, [tensor, offset], types=types, name=name)[0]


def _check_rows(function: str, dims: Sequence[int], sizes: Sequence[int]) -> None:
    if len(dims) != 1 or list(sizes) != [1]:
        raise poplar_error(f"{function} takes one dimension and slices of one row; got dims {dims} and sizes {sizes}.")


def _update(
    graph: Graph, function: str, tensor: Tensor, new: Tensor, offset: Tensor, rest: tuple[Any, ...], name: str, how: str
) -> None:
    scale = rest[0] if rest and isinstance(rest[0], Tensor) else None
    given = rest[1:] if scale is not None else rest
    dims, sizes, prog = given[0], given[1], given[2]
    _check_rows(function, dims, sizes)
    operands = [tensor, new, offset, *([scale] if scale is not None else [])]

    def traced(whole: torch.Tensor, part: torch.Tensor, indices: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        rows = indices.reshape(-1).to(torch.int64)
        flat = part.squeeze(dims[0] + 1).movedim(0, dims[0]).to(whole.dtype)
        if more:
            flat = flat * more[0].reshape(()).to(whole.dtype)
        if how == "add":
            return torch.index_add(whole, dims[0], rows, flat)
        if how == "copy":
            return torch.index_copy(whole, dims[0], rows, flat)
        places = rows.reshape([-1 if axis == dims[0] else 1 for axis in range(whole.dim())]).expand(flat.shape)
        return torch.scatter_reduce(whole, dims[0], places, flat, how)

    call_library(graph, prog, f"popops::{function}", traced, operands, outputs=[tensor], name=name)


def multiUpdate(graph: Graph, tensor: Tensor, new: Tensor, offset: Tensor, *rest: Any, name: str = "") -> None:
    """Write rows: `(graph, t, new, offset, dims, sizes, prog)`."""
    _update(graph, "multiUpdate", tensor, new, offset, rest, name, "copy")


def multiUpdateAdd(graph: Graph, tensor: Tensor, new: Tensor, offset: Tensor, *rest: Any, name: str = "") -> None:
    """Add to rows: `(graph, t, new, offset, scale, dims, sizes, prog)`."""
    _update(graph, "multiUpdateAdd", tensor, new, offset, rest, name, "add")


def multiUpdateMax(graph: Graph, tensor: Tensor, new: Tensor, offset: Tensor, *rest: Any, name: str = "") -> None:
    """Keep the larger: `(graph, t, new, offset, dims, sizes, prog)`."""
    _update(graph, "multiUpdateMax", tensor, new, offset, rest, name, "amax")


def multiUpdateMul(graph: Graph, tensor: Tensor, new: Tensor, offset: Tensor, *rest: Any, name: str = "") -> None:
    """Multiply rows: `(graph, t, new, offset, dims, sizes, prog)`."""
    _update(graph, "multiUpdateMul", tensor, new, offset, rest, name, "prod")


def encodeOneHot(graph: Graph, indices: Tensor, encoded: Tensor, prog: Target, *rest: Any, name: str = "") -> None:
    """Rows of `encoded` that are 1 at the index and 0 elsewhere; or `on` and `off`, if they are given as tensors."""
    on, off = (rest[0], rest[1]) if len(rest) >= 2 and isinstance(rest[0], Tensor) else (None, None)
    dtype, classes = choose_format(encoded.elementType()), encoded.dim(encoded.rank() - 1)
    operands = [indices, *(one for one in (on, off) if one is not None)]

    def traced(places: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        hot = functional.one_hot(places.to(torch.int64), classes)
        if values:
            return torch.where(hot.to(torch.bool), values[0].reshape(()), values[1].reshape(())).to(dtype)
        return hot.to(dtype)

    call_library(graph, prog, "popops::encodeOneHot", traced, operands, outputs=[encoded], name=name)
