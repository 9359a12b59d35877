"""Intervals divided between workers, names of template vertices, copies to other IPUs.

In: intervals, graphs. Out: lists of intervals, names, tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poplar import Graph, Interval, Target, Tensor, Type, concat
from poplar.program import Copy
from poplar.program import Sequence as ProgramSequence


def splitRegions(
    regions: Sequence[Interval], grainSize: int, maxPartitions: int, minElementsPerPartition: int = 0
) -> list[list[Interval]]:
    """Intervals in at most so many parts of about the same size, each of whole grains."""
    total = sum(region.end - region.begin for region in regions)
    if not total:
        return []
    grains = -(-total // grainSize)
    least = max(1, -(-minElementsPerPartition // grainSize))
    parts = max(1, min(maxPartitions, grains // least or 1))
    limits = [min(total, (part + 1) * grains // parts * grainSize) for part in range(parts)]
    found: list[list[Interval]] = [[]]
    done = 0
    for region in regions:
        begin = region.begin
        while begin < region.end:
            room = limits[len(found) - 1] - done
            if room <= 0:
                found.append([])
                continue
            end = min(region.end, begin + room)
            found[-1].append(Interval(begin, end))
            done += end - begin
            begin = end
    return found


def splitRegionsBetweenWorkers(
    target: Target, regions: Sequence[Interval], grainSize: int, minElementsPerPartition: int = 0, *rest: Any
) -> list[list[Interval]]:
    """One part for each worker of a tile, at most."""
    return splitRegions(regions, grainSize, target.getNumWorkerContexts(), minElementsPerPartition)


def templateVertex(name: str, *arguments: Any) -> str:
    """`Name<float,true>`, as vertices of templates are called."""
    texts = [
        str(argument).lower()
        if isinstance(argument, bool)
        else argument.name
        if isinstance(argument, Type)
        else str(argument)
        for argument in arguments
    ]
    return f"{name}<{','.join(texts)}>" if texts else name


def mergeAdjacentRegions(regions: Sequence[Interval]) -> list[Interval]:
    """Intervals in order, those that touch as one."""
    found: list[Interval] = []
    for region in sorted(regions, key=lambda one: one.begin):
        if found and found[-1].end == region.begin:
            found[-1] = Interval(found[-1].begin, region.end)
        elif region.end > region.begin:
            found.append(region)
    return found


def flattenIntervals(intervals: Sequence[Sequence[Interval]]) -> list[Interval]:
    return [interval for part in intervals for interval in part]


def intervalSequenceNumElements(intervals: Sequence[Sequence[Interval]]) -> int:
    return sum(interval.end - interval.begin for part in intervals for interval in part)


def flattenIndex(shape: Sequence[int], indices: Sequence[int]) -> int:
    """The place of an element in row-major order."""
    found = 0
    for size, index in zip(shape, indices, strict=True):
        found = found * size + index
    return found


def unflattenIndex(shape: Sequence[int], index: int) -> list[int]:
    found = []
    for size in reversed(shape):
        index, rest = divmod(index, size)
        found.append(rest)
    return found[::-1]


def balancedPartition(rangeUpperBound: int, splitCount: int) -> list[int]:
    """Sizes of so many parts of a range, which differ by 1 at the most."""
    return [
        rangeUpperBound * (part + 1) // splitCount - rangeUpperBound * part // splitCount for part in range(splitCount)
    ]


def dimIsSplitOverTiles(graph: Graph, tensor: Tensor, dimension: int) -> bool:
    """Do elements that differ in this dimension alone lie on several tiles?"""
    return _is_split(graph, tensor, dimension, 1)


def dimIsSplitOverIPUs(graph: Graph, tensor: Tensor, dimension: int) -> bool:
    return _is_split(graph, tensor, dimension, graph.getTarget().getTilesPerIPU())


def _is_split(graph: Graph, tensor: Tensor, dimension: int, step: int) -> bool:
    rows = tensor.dimRoll(dimension, tensor.rank() - 1)
    size, tiles = tensor.dim(dimension), [0] * tensor.numElements()
    for tile, intervals in enumerate(graph.getTileMapping(rows)):
        for begin, end in intervals:
            tiles[begin:end] = [tile // step] * (end - begin)
    return any(len(set(tiles[row : row + size])) > 1 for row in range(0, len(tiles), size))


def cloneToIpu(graph: Graph, tensor: Tensor, ipu: int, name: str = "", *rest: Any) -> Tensor:
    """A variable like a tensor, at the same places of another IPU."""
    return createIpuCopy(graph, tensor, ipu, name)


def cloneN(graph: Graph, tensor: Tensor, count: int, name: str = "", *rest: Any) -> Tensor:
    """So many variables like a tensor, joined in a new first dimension."""
    return concat([graph.clone(tensor, name or "clone").expand([0]) for _ in range(count)])


def createIpuCopy(graph: Graph, tensor: Tensor, ipu: int, name: str = "", *rest: Any) -> Tensor:
    """A variable like a tensor, at the same places of another IPU."""
    made = graph.addVariable(tensor.elementType(), tensor.shape(), name or "ipu copy")
    tiles = graph.getTarget().getTilesPerIPU()
    flat = made.flatten()
    for tile, intervals in enumerate(graph.getTileMapping(tensor)):
        for begin, end in intervals:
            graph.setTileMapping(flat.slice(begin, end), tile % tiles + ipu * tiles)
    return made


def copyToIpu(graph: Graph, tensor: Tensor, prog: ProgramSequence, ipu: int, name: str = "", *rest: Any) -> Tensor:
    """A copy of a tensor on another IPU."""
    made = createIpuCopy(graph, tensor, ipu, name)
    prog.add(Copy(tensor, made))
    return made
