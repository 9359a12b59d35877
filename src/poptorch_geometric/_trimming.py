"""Graphs with fewer nodes or edges, so that a mini-batch of them has its fixed size.

In: the graphs and the most nodes or edges of each type in all of them together. Out: subgraphs. What is left out is
drawn at random by PyTorch's generator, so that a seed repeats it; the nodes that a neighbour sampler began with stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch_geometric.data import HeteroData
from torch_geometric.data.data import BaseData

from poptorch_geometric._stores import Counts, Kind, count_edges, count_nodes, iterate_stores


def trim_nodes(graphs: Sequence[BaseData], limits: Counts) -> list[BaseData]:
    """At least one node of every graph stays. Raises RuntimeError where there is no room for that."""
    counts = [count_nodes(graph) for graph in graphs]
    kept: list[dict[Kind, torch.Tensor]] = [{} for _ in graphs]
    for kind, limit in limits.items():
        numbers = [count.get(kind, 0) for count in counts]
        if sum(numbers) <= limit:
            continue
        least = [min(number, _count_seeds(graph, kind)) for graph, number in zip(graphs, numbers, strict=True)]
        if sum(least) > limit:
            raise RuntimeError(
                f"Nodes{_name(kind)} cannot be trimmed to {limit}: {sum(least)} have to stay, one of each graph or "
                "those that sampling began with. Make num_nodes of the fixed sizes larger, or batch_size smaller."
            )
        for place, mask in enumerate(_draw(numbers, least, limit)):
            kept[place][kind] = mask
    return [_cut_nodes(graph, masks) if masks else graph for graph, masks in zip(graphs, kept, strict=True)]


def trim_edges(graphs: Sequence[BaseData], limits: Counts) -> list[BaseData]:
    """Any edge may go."""
    counts = [count_edges(graph) for graph in graphs]
    kept: list[dict[Kind, torch.Tensor]] = [{} for _ in graphs]
    for kind, limit in limits.items():
        numbers = [count.get(kind, 0) for count in counts]
        if sum(numbers) > limit:
            for place, mask in enumerate(_draw(numbers, [0] * len(numbers), limit)):
                kept[place][kind] = mask
    return [_cut_edges(graph, masks) if masks else graph for graph, masks in zip(graphs, kept, strict=True)]


def _draw(numbers: Sequence[int], least: Sequence[int], limit: int) -> tuple[torch.Tensor, ...]:
    """For each graph, which of its elements stay: the first `least` of them, and a random choice of the others."""
    masks = [torch.arange(number) < first for number, first in zip(numbers, least, strict=True)]
    mask = torch.cat(masks)
    others = (~mask).nonzero().flatten()
    mask[others[torch.randperm(len(others))[: limit - sum(least)]]] = True
    return torch.split(mask, list(numbers))


def _count_seeds(graph: BaseData, kind: Kind) -> int:
    """Nodes at the beginning of a type that may not go."""
    seeds: Any = dict(iterate_stores(graph))[kind].get("batch_size")
    return seeds if isinstance(seeds, int) else 1


def _cut_nodes(graph: BaseData, masks: dict[Kind, torch.Tensor]) -> BaseData:
    cut: BaseData = graph.subgraph(masks if isinstance(graph, HeteroData) else masks[None])
    return cut


def _cut_edges(graph: BaseData, masks: dict[Kind, torch.Tensor]) -> BaseData:
    cut: BaseData = graph.edge_subgraph(masks if isinstance(graph, HeteroData) else masks[None])
    return cut


def _name(kind: Kind) -> str:
    return "" if kind is None else f" of type {kind!r}"
