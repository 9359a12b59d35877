"""Where a graph keeps its attributes, the same way for homogeneous and heterogeneous ones.

In: graphs of PyTorch Geometric. Out: their stores by kind, and whether an attribute belongs to nodes, to edges or to
the graph. That follows from sizes alone, so it is asked of several graphs at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.data import BaseData

Kind = Any  # a node type, an edge type, or None for what is not divided into types
Counts = dict[Kind, int]


class Level(Enum):
    """What an attribute has a row for."""

    NODE = "node"
    EDGE = "edge"
    GRAPH = "graph"


def check_graphs(graphs: Sequence[Any]) -> None:
    """Raises ValueError where there are no graphs, others than PyG's, or both kinds of them."""
    if not graphs:
        raise ValueError("There are no graphs to make a mini-batch of.")
    for graph in graphs:
        if not isinstance(graph, Data | HeteroData):
            raise ValueError(
                f"Expected graphs of PyTorch Geometric (Data or HeteroData), not a {type(graph).__name__}."
            )
        if isinstance(graph, HeteroData) != isinstance(graphs[0], HeteroData):
            raise ValueError("A mini-batch has homogeneous graphs or heterogeneous ones, not both.")


def count_nodes(graph: BaseData) -> Counts:
    """Nodes of each type."""
    if isinstance(graph, HeteroData):
        return {kind: int(store.num_nodes or 0) for kind, store in graph.node_items()}
    return {None: int(graph.num_nodes or 0)}


def count_edges(graph: BaseData) -> Counts:
    """Edges of each type."""
    if isinstance(graph, HeteroData):
        return {kind: int(store.num_edges) for kind, store in graph.edge_items()}
    return {None: int(graph.num_edges)}


def iterate_stores(graph: BaseData) -> Iterator[tuple[Kind, Any]]:
    """Every store with its kind; that of attributes of the whole graph comes first and has none."""
    yield None, graph.stores[0]
    if isinstance(graph, HeteroData):
        yield from graph.node_items()
        yield from graph.edge_items()


def find_row_dimension(graph: BaseData, key: str, value: torch.Tensor, store: Any) -> int | None:
    """The dimension along which graphs are joined; None if there is none."""
    dimension = graph.__cat_dim__(key, value, store)
    return None if dimension is None or value.dim() == 0 else int(dimension) % value.dim()


class Levels:
    """Remembers of each attribute what it has shown to belong to: a graph with one node does not show it."""

    def __init__(self) -> None:
        self._known: dict[tuple[Kind, str], Level] = {}

    def find(self, graphs: Sequence[BaseData], kind: Kind, key: str) -> Level:
        """What an attribute that is a tensor in all of these graphs belongs to."""
        found = [_measure(graph, kind, key) for graph in graphs]
        by_node = all(rows is not None and rows == nodes for rows, nodes, _ in found)
        by_edge = all(rows is not None and rows == edges for rows, _, edges in found)
        if by_node and by_edge:
            level = Level.EDGE if "edge" in key or key == "e_id" else Level.NODE
        else:
            level = Level.NODE if by_node else Level.EDGE if by_edge else Level.GRAPH
        if level is not Level.GRAPH and all(rows == 1 for rows, _, _ in found):
            return self._known.get((kind, key), level)
        self._known[kind, key] = level
        return level


def _measure(graph: BaseData, kind: Kind, key: str) -> tuple[int | None, int | None, int | None]:
    """Rows of the attribute, nodes and edges of its store; None for what it has not."""
    store = dict(iterate_stores(graph))[kind]
    value = store[key]
    dimension = find_row_dimension(graph, key, value, store)
    rows = None if dimension is None else value.size(dimension)
    homogeneous, of_edges = isinstance(graph, Data), isinstance(kind, tuple)
    nodes = store.num_nodes if homogeneous or (kind is not None and not of_edges) else None
    edges = store.num_edges if homogeneous or of_edges else None
    return rows, nodes, edges
