"""Graphs that hold nothing but padding.

In: the graphs of a mini-batch and how much is missing. Out: graphs with the same attributes, filled. Edges of such a
graph begin and end at its first node, so that nothing reaches a real one.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch_geometric.data.data import BaseData

from poptorch_geometric._stores import Counts, Kind, Level, Levels, find_row_dimension, iterate_stores
from poptorch_geometric.fixed_size_options import FixedSizeOptions


def divide_padding(graphs: int, nodes: Counts, edges: Counts) -> list[tuple[Counts, Counts]]:
    """Nodes and edges of each of the graphs, as even as can be. Only graphs with nodes get edges.

    Raises RuntimeError for edges that have no node.
    """
    shares: list[tuple[Counts, Counts]] = [({}, {}) for _ in range(graphs)]
    for kind, number in nodes.items():
        for place, share in enumerate(_divide(number, graphs)):
            shares[place][0][kind] = share
    for kind, number in edges.items():
        ends = (kind[0], kind[-1]) if isinstance(kind, tuple) else (None,)
        takers = min(graphs, *(nodes[end] for end in ends))
        if number and not takers:
            raise RuntimeError(
                f"{number} edges of padding{_name(kind)} have no node that they could belong to: all nodes of the "
                "mini-batch are real ones. Make num_nodes of the fixed sizes larger by one."
            )
        parts = _divide(number, takers) if takers else []
        for place in range(graphs):
            shares[place][1][kind] = parts[place] if place < len(parts) else 0
    return shares


def _divide(number: int, parts: int) -> list[int]:
    return [number // parts + (place < number % parts) for place in range(parts)]


def _name(kind: Kind) -> str:
    return "" if kind is None else f" of type {kind}"


@dataclass(frozen=True, slots=True)
class Filling:
    """An attribute of padding: what it is like in a real graph, and what it is filled with."""

    kind: Kind
    key: str
    value: torch.Tensor
    level: Level
    dimension: int | None
    fill: float

    def make(self, rows: int | None) -> torch.Tensor:
        shape = list(self.value.shape)
        if rows is not None and self.dimension is not None:
            shape[self.dimension] = rows
        return torch.full(shape, self.fill, dtype=self.value.dtype)


class PaddingMaker:
    """Makes graphs like those of a mini-batch, which are looked at once."""

    def __init__(self, graphs: Sequence[BaseData], options: FixedSizeOptions, levels: Levels) -> None:
        self._template = copy.copy(graphs[0])
        self._fillings: list[Filling] = []
        for kind, store in iterate_stores(self._template):
            for key, value in list(store.items()):
                _refuse_sparse(key, value)
                if isinstance(value, torch.Tensor):
                    level = levels.find(graphs, kind, key)
                    dimension = find_row_dimension(self._template, key, value, store)
                    fill = False if value.dtype == torch.bool else _choose_value(key, level, options)
                    self._fillings.append(Filling(kind, key, value, level, dimension, fill))
                elif key != "num_nodes":
                    store[key] = options.pad_graph_defaults.get(key, value)

    def make(self, nodes: Counts, edges: Counts) -> BaseData:
        """A graph with so many nodes and edges, all of them padding."""
        padding = copy.copy(self._template)
        stores = dict(iterate_stores(padding))
        for filling in self._fillings:
            rows = {Level.NODE: nodes, Level.EDGE: edges, Level.GRAPH: {}}[filling.level].get(filling.kind)
            stores[filling.kind][filling.key] = filling.make(rows)
        for kind, number in nodes.items():
            if "num_nodes" in stores[kind] or stores[kind].num_nodes != number:  # or no attribute shows it
                stores[kind].num_nodes = number
        return padding


def _choose_value(key: str, level: Level, options: FixedSizeOptions) -> float:
    """Masks of bool, which say what counts, are never asked for: padding does not."""
    if "index" in key:
        return 0  # of the first node; joining graphs moves it to its place
    if level is Level.NODE:
        return options.node_pad_value
    return options.edge_pad_value if level is Level.EDGE else options.graph_pad_value


def _refuse_sparse(key: str, value: Any) -> None:
    sparse = isinstance(value, torch.Tensor) and value.layout != torch.strided
    if sparse or type(value).__name__ == "SparseTensor":
        raise ValueError(
            f"{key!r} is a sparse matrix, whose shape does not say how many values it holds: it cannot be padded. Give "
            "the graph an edge_index instead, or leave the attribute out by exclude_keys."
        )
