"""Graph networks: messages between nodes over a fixed number of edges, as packed batches have it.

In: sizes and a `Format`. Out: modules on packed graphs: features of nodes and edges, and the edges as indices.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from openipu.models.layers import Format, Linear, make_layer_norm
from openipu.models.text.encoders import Attention, EncoderShape


class MessageLayer(nn.Module):
    """Edges read their two nodes, nodes sum what their edges say."""

    def __init__(self, nodes: int, edges: int, form: Format) -> None:
        super().__init__()
        self.edge_in, self.edge_out = Linear(2 * nodes + edges, 2 * edges, form), Linear(2 * edges, edges, form)
        self.node_in, self.node_out = Linear(nodes + edges, 2 * nodes, form), Linear(2 * nodes, nodes, form)
        self.norm_edge, self.norm_node = make_layer_norm(edges, form), make_layer_norm(nodes, form)

    def forward(self, nodes: Tensor, edges: Tensor, starts: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        said = torch.cat((nodes[starts], nodes[ends], edges), -1)
        edges = edges + self.norm_edge(self.edge_out(nn.functional.gelu(self.edge_in(said))))
        heard = torch.zeros(nodes.shape[0], edges.shape[1], dtype=nodes.dtype, device=nodes.device)
        heard = heard.index_add(0, ends, edges)
        changed = self.node_out(nn.functional.gelu(self.node_in(torch.cat((nodes, heard), -1))))
        return nodes + self.norm_node(changed), edges


class GraphTransformer(nn.Module):
    """GPS++ (Masters et al. 2022): message passing and attention over the nodes of each pack."""

    def __init__(self, form: Format, *, layers: int = 16, nodes: int = 256, edges: int = 128, heads: int = 32) -> None:
        super().__init__()
        shape = EncoderShape(layers, nodes, heads, 4 * nodes)
        self.enter_nodes, self.enter_edges = Linear(64, nodes, form), Linear(32, edges, form)
        self.layers = nn.ModuleList([MessageLayer(nodes, edges, form) for _ in range(layers)])
        self.attention = nn.ModuleList([Attention(shape, form) for _ in range(layers)])
        self.feed = nn.ModuleList(
            [
                nn.Sequential(Linear(nodes, 4 * nodes, form), nn.GELU(), Linear(4 * nodes, nodes, form))
                for _ in range(layers)
            ]
        )
        self.norms = nn.ModuleList([make_layer_norm(nodes, form) for _ in range(layers)])
        self.answer = Linear(nodes, 1, form)

    def forward(self, nodes: Tensor, edges: Tensor, starts: Tensor, ends: Tensor, targets: Tensor) -> Tensor:
        """`nodes` is [packs, nodes of a pack, features]; edges of all packs lie in one list."""
        packs, size, _ = nodes.shape
        hidden, said = self.enter_nodes(nodes), self.enter_edges(edges)
        for message, attention, feed, norm in zip(self.layers, self.attention, self.feed, self.norms, strict=True):
            flat, said = message(hidden.flatten(0, 1), said, starts, ends)
            hidden = norm(flat.view(packs, size, -1) + attention(hidden, None, None))
            hidden = hidden + feed(hidden)
        return nn.functional.l1_loss(self.answer(hidden.mean(1)).float(), targets)


class SampledGraph(nn.Module):
    """GraphSAGE (Hamilton et al. 2017): two layers over sampled neighbours, summed for each node."""

    def __init__(self, form: Format, *, features: int = 602, hidden: int = 256, classes: int = 41) -> None:
        super().__init__()
        self.first, self.second = Linear(2 * features, hidden, form), Linear(2 * hidden, classes, form)

    def forward(self, near: Tensor, far: Tensor, labels: Tensor) -> Tensor:
        """`near` is [nodes, neighbours, features], `far` the neighbours' own neighbours."""
        inner = torch.cat((near, far.mean(2)), -1)
        hidden = self.first(inner).relu()
        joined = torch.cat((hidden[:, 0], hidden.mean(1)), -1)
        return nn.functional.cross_entropy(self.second(joined).float(), labels)


class MessageNetwork(nn.Module):
    """Gilmer et al. 2017 (MPNN): rounds of messages, then one answer for each graph of a pack."""

    def __init__(
        self,
        form: Format,
        *,
        features: int = 64,
        described: int = 32,
        nodes: int = 128,
        edges: int = 64,
        rounds: int = 6,
    ) -> None:
        super().__init__()
        self.enter_nodes, self.enter_edges = Linear(features, nodes, form), Linear(described, edges, form)
        self.layers = nn.ModuleList([MessageLayer(nodes, edges, form) for _ in range(rounds)])
        self.answer_in, self.answer_out = Linear(nodes, nodes, form), Linear(nodes, 1, form)

    def forward(
        self, nodes: Tensor, edges: Tensor, starts: Tensor, ends: Tensor, targets: Tensor | None = None
    ) -> Tensor:
        """`nodes` is [graphs, nodes, features], `edges` [graphs, edges, features]; indices are within their graph."""
        graphs, size, _ = nodes.shape
        first = size * torch.arange(graphs, device=nodes.device)[:, None]
        hidden, said = self.enter_nodes(nodes).flatten(0, 1), self.enter_edges(edges).flatten(0, 1)
        for layer in self.layers:
            hidden, said = layer(hidden, said, (starts + first).flatten(), (ends + first).flatten())
        pooled = self.answer_in(hidden.view(graphs, size, -1)).relu().mean(1)
        answer: Tensor = self.answer_out(pooled).flatten()
        return answer if targets is None else nn.functional.mse_loss(answer.float(), targets.float())
