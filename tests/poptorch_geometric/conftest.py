"""Graphs of PyTorch Geometric that tests share: random, seeded, of different sizes."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData


def make_graph(nodes: int, edges: int, seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn(nodes, 4, generator=generator),
        edge_index=torch.randint(nodes, (2, edges), generator=generator),
        edge_attr=torch.randn(edges, 2, generator=generator),
        train_mask=torch.ones(nodes, dtype=torch.bool),
        y=torch.randint(3, (1,), generator=generator),
        name=f"graph {seed}",
    )


def make_hetero(papers: int, authors: int, seed: int = 0) -> HeteroData:
    generator = torch.Generator().manual_seed(seed)
    graph = HeteroData()
    graph["paper"].x = torch.randn(papers, 3, generator=generator)
    graph["author"].x = torch.randn(authors, 5, generator=generator)
    ends = torch.stack(
        [torch.randint(authors, (9,), generator=generator), torch.randint(papers, (9,), generator=generator)]
    )
    graph["author", "writes", "paper"].edge_index = ends
    graph["paper", "cites", "paper"].edge_index = torch.randint(papers, (2, 7), generator=generator)
    graph.y = torch.tensor([seed])
    return graph


@pytest.fixture
def graphs() -> list[Data]:
    """Ten graphs of 3 to 12 nodes, with twice as many edges."""
    return [make_graph(nodes, 2 * nodes, seed=nodes) for nodes in range(3, 13)]


@pytest.fixture
def hetero_graphs() -> list[HeteroData]:
    return [make_hetero(papers, papers + 2, seed=papers) for papers in range(4, 10)]


@pytest.fixture
def large_graph() -> Data:
    """200 nodes in 8 rings of 25 that touch their neighbours, so that it has clusters. `x` holds the node's number."""
    node = torch.arange(200)
    inside = torch.stack([node, node // 25 * 25 + (node + 1) % 25])
    between = torch.stack([torch.arange(0, 200, 25), (torch.arange(0, 200, 25) + 25) % 200])
    edges = torch.cat([inside, inside.flip(0), between, between.flip(0)], dim=1)
    return Data(x=node.float()[:, None], edge_index=edges, y=node // 25, train_mask=node % 2 == 0)
