"""Order: sorting, the largest elements, counts by value.

In: tensors. Out: tensors; indices are UNSIGNED_INT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from openipu.graph.mapped import UNSIGNED_INT, choose_format
from poplar import Graph, Tensor, Type
from poplar._library import Target, call_library
from poplar._linear import mapTensorLinearly


class SortOrder(Enum):
    NONE = 0
    ASCENDING = 1
    DESCENDING = 2


@dataclass(frozen=True, slots=True)
class TopKParams:
    """How many, the largest or the smallest, in which order."""

    k: int
    largest: bool = True
    sortOrder: SortOrder = SortOrder.NONE
    stableSort: bool = False


def sort(graph: Graph, tensor: Tensor, dimension: int, prog: Target, name: str = "") -> Tensor:
    """Ascending along a dimension."""

    def traced(given: torch.Tensor) -> torch.Tensor:
        return torch.sort(given, dimension)[0]

    return call_library(graph, prog, "popops::sort", traced, [tensor], name=name)[0]


def sortInPlace(graph: Graph, tensor: Tensor, dimension: int, prog: Target, name: str = "") -> None:
    def traced(given: torch.Tensor) -> torch.Tensor:
        return torch.sort(given, dimension)[0]

    call_library(graph, prog, "popops::sortInPlace", traced, [tensor], outputs=[tensor], name=name)


def sortKeyValue(graph: Graph, keys: Tensor, values: Tensor, dimension: int, prog: Target, name: str = "") -> Tensor:
    """Values in the order of their keys."""

    def traced(key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return torch.gather(value, dimension, torch.sort(key, dimension)[1])

    types = [values.elementType()]
    return call_library(graph, prog, "popops::sortKeyValue", traced, [keys, values], types=types, name=name)[0]


def sortKeyValueInPlace(
    graph: Graph, keys: Tensor, values: Tensor, dimension: int, prog: Target, name: str = ""
) -> None:
    """Both in the order of the keys."""

    def traced(key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ordered, places = torch.sort(key, dimension)
        return ordered, torch.gather(value, dimension, places)

    operands = [keys, values]
    call_library(graph, prog, "popops::sortKeyValueInPlace", traced, operands, outputs=operands, name=name)


def createTopKInput(graph: Graph, element: Type, shape: Sequence[int], params: TopKParams, *rest: Any) -> Tensor:
    """A tensor for `topK`."""
    made = graph.addVariable(
        element, list(shape), next((one for one in rest if isinstance(one, str) and one), "topK in")
    )
    mapTensorLinearly(graph, made)
    return made


def _pick(tensor: torch.Tensor, params: TopKParams) -> tuple[torch.Tensor, torch.Tensor]:
    values, places = torch.topk(tensor, params.k, -1, params.largest, sorted=True)
    reversed_order = SortOrder.ASCENDING if params.largest else SortOrder.DESCENDING
    if params.sortOrder is reversed_order:
        values, places = values.flip(-1), places.flip(-1)
    return values, places


def topK(graph: Graph, prog: Target, tensor: Tensor, params: TopKParams, name: str = "", options: Any = None) -> Tensor:
    """The k largest (or smallest) of the last dimension."""
    types = [tensor.elementType()]
    traced = lambda given: _pick(given, params)[0]  # noqa: E731
    return call_library(graph, prog, "popops::topK", traced, [tensor], types=types, name=name)[0]


def topKWithPermutation(
    graph: Graph, prog: Target, tensor: Tensor, params: TopKParams, name: str = "", options: Any = None
) -> tuple[Tensor, Tensor]:
    """The same with their places."""
    types = [tensor.elementType(), UNSIGNED_INT]
    made = call_library(
        graph, prog, "popops::topK", lambda given: _pick(given, params), [tensor], types=types, name=name
    )
    return made[0], made[1]


def topKKeyValue(
    graph: Graph, prog: Target, keys: Tensor, values: Tensor, params: TopKParams, name: str = "", options: Any = None
) -> tuple[Tensor, Tensor]:
    """The k largest keys, and what belongs to them."""

    def traced(key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found, places = _pick(key, params)
        return found, torch.gather(value, -1, places)

    types = [keys.elementType(), values.elementType()]
    made = call_library(graph, prog, "popops::topKKeyValue", traced, [keys, values], types=types, name=name)
    return made[0], made[1]


def histogram(
    graph: Graph,
    tensor: Tensor,
    *rest: Any,
    name: str = "",
) -> Tensor:
    """How many elements lie between ascending levels: one count more than there are levels.

    `(graph, t, levels, absolute, prog)`; into a tensor, or added to what it holds:
    `(graph, t, out, update, levels, absolute, prog)`.
    """
    out, update = (rest[0], bool(rest[1])) if isinstance(rest[2], Tensor) else (None, False)
    levels, absolute, prog = rest[:3] if out is None else rest[2:5]

    def traced(given: torch.Tensor, edges: torch.Tensor, *before: torch.Tensor) -> torch.Tensor:
        flat = given.reshape(-1, 1).abs() if absolute else given.reshape(-1, 1)
        below = torch.sum(flat < edges, 0).to(torch.int64)
        total = torch.full_like(below[:1], flat.shape[0])
        start = torch.zeros_like(below[:1])
        counts = torch.cat([below, total]) - torch.cat([start, below])
        return counts + before[0].to(counts.dtype) if before else counts

    operands = [tensor, levels, *([out] if update else [])]
    if out is None:
        return call_library(graph, prog, "popops::histogram", traced, operands, types=[UNSIGNED_INT], name=name)[0]
    wanted = choose_format(out.elementType())
    cast = lambda *given: traced(*given).to(wanted)  # noqa: E731
    return call_library(graph, prog, "popops::histogram", cast, operands, outputs=[out], name=name)[0]
