"""Divides a graph into parts of one size whose nodes are near each other.

In: edges. Out: the part of each node. Parts grow one after the other, each breadth-first from the rim of the last one
until it is full. That needs no native library, and leaves more edges between parts than METIS does, which moves nodes
afterwards to have few of them.
"""

from __future__ import annotations

import torch

from openipu_pyg.rows import Rows


def divide_graph(edge_index: torch.Tensor, num_nodes: int, parts: int) -> torch.Tensor:
    """The part of each node. Parts differ by one node at most; edges count in both directions."""
    rows = Rows.from_edges(torch.cat([edge_index, edge_index.flip(0)], dim=1), num_nodes)
    cluster = torch.full((num_nodes,), -1, dtype=torch.long)
    waiting = torch.argsort(-rows.starts.diff(), stable=True)  # the last are taken first: few neighbours, but some
    waiting = torch.cat([(rows.starts.diff() == 0).nonzero().flatten(), waiting[rows.starts.diff()[waiting] > 0]])
    rim = waiting[:0]
    for part in range(parts):
        room = num_nodes * (part + 1) // parts - num_nodes * part // parts
        frontier = rim[:1]
        while room:
            if not len(frontier):
                waiting = waiting[cluster[waiting] < 0]
                lonely = int(rows.starts[waiting[-1] + 1] - rows.starts[waiting[-1]]) == 0
                frontier = waiting[-room:] if lonely else waiting[-1:]
            taken, left = frontier[:room], frontier[room:]
            cluster[taken] = part
            room -= len(taken)
            found = rows.values[rows.expand(taken)[0]]
            frontier = keep_first(found[cluster[found] < 0])
            rim = torch.cat([left, frontier])
        rim = rim[cluster[rim] < 0]
    return cluster


def keep_first(values: torch.Tensor) -> torch.Tensor:
    """Each value once, where it comes first."""
    unique, inverse = torch.unique(values, return_inverse=True)
    first = torch.full((len(unique),), len(values)).scatter_reduce(
        0, inverse, torch.arange(len(values)), reduce="amin", include_self=True
    )
    return values[first.sort().values]
