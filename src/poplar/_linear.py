"""Linear mappings: a tensor's elements in order over the tiles.

In: a graph and a tensor. Out: intervals for each tile. A tile gets whole grains, and at least 128 bytes, so that small
tensors lie on few tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from poplar._tensor import Tensor
from poplar._views import Interval

if TYPE_CHECKING:
    from poplar._graph import Graph

MINIMUM_BYTES = 128


def calcLinearTileMapping(
    graph: Graph,
    shape: Tensor | Sequence[int],
    minElementsPerTile: int | None = None,
    grainSize: int | None = None,
    offset: int = 0,
    ascending: bool = True,
) -> list[list[Interval]]:
    """Intervals of elements for each tile, from tile `offset` on."""
    target = graph.getTarget()
    tiles = target.getNumTiles()
    if isinstance(shape, Tensor):
        element = shape.elementType()
        elements = shape.numElements()
        grain = grainSize or target.getVectorWidth(element)
        least = minElementsPerTile or -(-MINIMUM_BYTES // element.bytes)
    else:
        elements = 1
        for size in shape:
            elements *= int(size)
        grain, least = grainSize or 1, minElementsPerTile or 1
    mapping: list[list[Interval]] = [[] for _ in range(tiles)]
    if not elements:
        return mapping
    grains = -(-elements // grain)
    least_grains = max(1, -(-least // grain))
    used = max(1, min(tiles, grains // least_grains or 1))
    for place in range(used):
        begin = min(elements, place * grains // used * grain)
        end = min(elements, (place + 1) * grains // used * grain)
        if begin < end:
            tile = (offset + place) % tiles if ascending else (offset - place) % tiles
            mapping[tile].append(Interval(begin, end))
    return mapping


def mapTensorLinearly(
    graph: Graph, tensor: Tensor, minElementsPerTile: int | None = None, grainSize: int | None = None
) -> None:
    """Spread a tensor over the tiles."""
    graph.setTileMapping(tensor, calcLinearTileMapping(graph, tensor, minElementsPerTile, grainSize))


def mapTensorLinearlyWithOffset(graph: Graph, tensor: Tensor, *numbers: int, ascending: bool = True) -> int:
    """The same from a tile on: `(graph, t, offset)` or `(graph, t, minElementsPerTile, grainSize, offset)`.

    Returns the tile after the last one that was used.
    """
    given = [number for number in numbers if not isinstance(number, bool)]
    ascending = next((flag for flag in numbers if isinstance(flag, bool)), ascending)
    least, grain, offset = given if len(given) == 3 else (None, None, *(given or [0]))
    mapping = calcLinearTileMapping(graph, tensor, least, grain, int(offset or 0), ascending)
    graph.setTileMapping(tensor, mapping)
    used = sum(1 for intervals in mapping if intervals)
    return int((offset or 0) + (used if ascending else -used)) % len(mapping)


def getTileImbalance(graph: Graph, tensor: Tensor, minElementsPerTile: int = 0, grainSize: int = 1) -> int:
    """How many elements the fullest tile has more than in a linear mapping."""
    held = [sum(end - begin for begin, end in intervals) for intervals in graph.getTileMapping(tensor)]
    even = calcLinearTileMapping(graph, tensor, minElementsPerTile or None, grainSize)
    return int(max(0, max(held) - max(sum(end - begin for begin, end in intervals) for intervals in even)))
