"""Samples neighbourhoods, hop by hop.

In: PyTorch Geometric's `NeighborSampler`, which holds the graph by target node, and the nodes to begin with. Out: its
`SamplerOutput`, or that of heterogeneous graphs: sampled nodes, those to begin with first, and edges between them by
their places in that list. Random numbers are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput
from torch_geometric.sampler.base import SubgraphType

from openipu_pyg.clusters import keep_first
from openipu_pyg.rows import Rows

ONLY = "nodes"  # the type of nodes and edges where there are no types
ONLY_EDGE = (ONLY, "to", ONLY)
Edge = tuple[str, str, str]


@dataclass(eq=False)
class Sampled:
    """Nodes of one type so far. `places` says of each node of the graph where it is among them; -1 if it is not."""

    nodes: torch.Tensor
    places: torch.Tensor
    counts: list[int] = field(default_factory=list)  # found in each hop, after those to begin with

    @classmethod
    def begin(cls, seed: torch.Tensor, num_nodes: int) -> Sampled:
        places = torch.full((num_nodes,), -1, dtype=torch.long)
        places[seed] = torch.arange(len(seed))
        return cls(seed, places, [len(seed)])

    def add(self, found: torch.Tensor) -> None:
        new = keep_first(found[self.places[found] < 0])
        self.places[new] = len(self.nodes) + torch.arange(len(new))
        self.nodes = torch.cat([self.nodes, new])
        self.counts.append(len(new))


@dataclass(eq=False)
class Links:
    """Edges of one type so far: source and target among the sampled nodes, and the place in the graph's own list."""

    parts: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = field(default_factory=list)

    def join(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        empty = torch.empty(0, dtype=torch.long)
        rows, columns, edges = (torch.cat(part) for part in zip((empty,) * 3, *self.parts, strict=True))
        return rows, columns, edges


def sample_neighbors(sampler: Any, seed: Any, seed_time: Any = None) -> SamplerOutput | HeteroSamplerOutput:
    """What `NeighborSampler` returns. Raises ImportError for what only pyg-lib can."""
    _refuse_more(sampler, seed_time)
    induced = sampler.subgraph_type == SubgraphType.induced
    if isinstance(seed, Mapping):
        graphs = {
            kind: Rows(sampler.colptr_dict["__".join(kind)], sampler.row_dict["__".join(kind)])
            for kind in sampler.edge_types
        }
        fanout = sampler.num_neighbors.get_mapped_values(sampler.edge_types)
        hops = {kind: fanout["__".join(kind)] for kind in sampler.edge_types}
        nodes = {
            kind: Sampled.begin(seed.get(kind, torch.empty(0, dtype=torch.long)).long(), int(sampler.num_nodes[kind]))
            for kind in sampler.node_types
        }
        links = _sample(graphs, nodes, hops, sampler.replace, induced)
        joined = {kind: each.join() for kind, each in links.items()}
        return HeteroSamplerOutput(
            node={kind: each.nodes for kind, each in nodes.items()},
            row={kind: each[0] for kind, each in joined.items()},
            col={kind: each[1] for kind, each in joined.items()},
            edge={kind: each[2] for kind, each in joined.items()},
            batch=None,
            num_sampled_nodes={kind: each.counts for kind, each in nodes.items()},
            num_sampled_edges=None if induced else {kind: _count(each) for kind, each in links.items()},
        )
    only = {ONLY: Sampled.begin(seed.long(), int(sampler.num_nodes))}
    hops = {ONLY_EDGE: sampler.num_neighbors.get_mapped_values()}
    links = _sample({ONLY_EDGE: Rows(sampler.colptr, sampler.row)}, only, hops, sampler.replace, induced)
    row, col, edge = links[ONLY_EDGE].join()
    return SamplerOutput(
        node=only[ONLY].nodes,
        row=row,
        col=col,
        edge=edge,
        batch=None,
        num_sampled_nodes=only[ONLY].counts,
        num_sampled_edges=None if induced else _count(links[ONLY_EDGE]),
    )


def _count(links: Links) -> list[int]:
    return [len(edges) for _, _, edges in links.parts]


def _refuse_more(sampler: Any, seed_time: Any) -> None:
    asked = {
        "disjoint": sampler.disjoint,
        "sampling by time": sampler.is_temporal or seed_time is not None,
        "sampling by weight": getattr(sampler, "edge_weight", None) is not None,
        "sampling backwards": getattr(sampler, "sample_direction", "forward") != "forward",
    }
    for what, wanted in asked.items():
        if wanted:
            raise ImportError(
                f"{what} needs pyg-lib, which is not installed. openipu samples without it: any number of hops, with "
                "and without replacement, directional, bidirectional and induced subgraphs."
            )


def _sample(
    graphs: Mapping[Edge, Rows],
    nodes: Mapping[str, Sampled],
    hops: Mapping[Edge, list[int]],
    replace: bool,
    induced: bool,
) -> dict[Edge, Links]:
    """Adds to `nodes` what the hops find. Of an induced subgraph, all edges between sampled nodes are returned."""
    links = {kind: Links() for kind in graphs}
    begun = dict.fromkeys(nodes, 0)
    for hop in range(max(map(len, hops.values()), default=0)):
        reached = {kind: len(each.nodes) for kind, each in nodes.items()}
        drawn = {}
        for kind, graph in graphs.items():
            first = begun[kind[-1]]
            places, owners = graph.draw(nodes[kind[-1]].nodes[first:], hops[kind][hop], replace)
            drawn[kind] = (graph.values[places].long(), owners + first, places)
        for name, each in nodes.items():
            found = [sources for kind, (sources, _, _) in drawn.items() if kind[0] == name]
            each.add(torch.cat([torch.empty(0, dtype=torch.long), *found]))
        for kind, (sources, targets, places) in drawn.items():
            links[kind].parts.append((nodes[kind[0]].places[sources], targets, places))
        begun = reached
    return (
        {kind: _find_all(graph, nodes[kind[0]], nodes[kind[-1]]) for kind, graph in graphs.items()}
        if induced
        else links
    )


def _find_all(graph: Rows, sources: Sampled, targets: Sampled) -> Links:
    places, owners = graph.expand(targets.nodes)
    rows = sources.places[graph.values[places].long()]
    inside = rows >= 0
    return Links([(rows[inside], owners[inside], places[inside])])
