"""Neighbours and clusters without native libraries: what is sampled exists, and is all there is where all is asked."""

import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.loader import ClusterData, NeighborLoader
from torch_geometric.utils import k_hop_subgraph

from openipu_pyg.clusters import divide_graph, keep_first
from openipu_pyg.rows import Rows


def read_edges(graph, batch):
    known = set(map(tuple, graph.edge_index.t().tolist()))
    return [tuple(edge) for edge in batch.n_id[batch.edge_index].t().tolist()], known


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_all_neighbours_are_those_within_so_many_hops(large_graph, hops):
    batch = next(iter(NeighborLoader(large_graph, [-1] * hops, batch_size=1, input_nodes=torch.tensor([30]))))
    expected, *_ = k_hop_subgraph(30, hops, large_graph.edge_index)
    assert sorted(batch.n_id.tolist()) == expected.tolist()
    assert batch.n_id[0] == 30
    assert sum(batch.num_sampled_nodes) == batch.num_nodes
    assert torch.equal(large_graph.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])


def test_sampled_edges_are_edges_and_no_more_than_asked_for_at_a_node(large_graph):
    for batch in NeighborLoader(large_graph, [1, 1], batch_size=7):
        edges, known = read_edges(large_graph, batch)
        assert set(edges) <= known
        assert len(set(edges)) == len(edges)
        assert torch.bincount(batch.edge_index[1]).max() == 1
        assert len(set(batch.n_id.tolist())) == batch.num_nodes


def test_with_replacement_an_edge_may_come_twice(large_graph):
    torch.manual_seed(0)
    batch = next(iter(NeighborLoader(large_graph, [9], batch_size=3, replace=True)))
    edges, known = read_edges(large_graph, batch)
    assert len(edges) == 27
    assert set(edges) <= known


def test_an_induced_subgraph_has_all_edges_between_its_nodes(large_graph):
    batch = next(iter(NeighborLoader(large_graph, [2, 2], batch_size=3, subgraph_type="induced")))
    edges, known = read_edges(large_graph, batch)
    inside = set(batch.n_id.tolist())
    assert sorted(edges) == sorted(edge for edge in known if set(edge) <= inside)


def test_a_seed_repeats_the_sample_and_another_one_does_not(large_graph):
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(next(iter(NeighborLoader(large_graph, [1, 1, 1], batch_size=8))).n_id.tolist())
    assert drawn[0] == drawn[1] != drawn[2]


def test_every_neighbour_is_drawn_as_often_as_others():
    rows = Rows(torch.tensor([0, 5]), torch.arange(5))
    torch.manual_seed(0)
    counts = torch.zeros(5)
    for _ in range(1000):
        places, _ = rows.draw(torch.tensor([0]), 2, replace=False)
        counts[places] += 1
    assert (counts / 1000 - 2 / 5).abs().max() < 0.06  # four standard deviations of a share of 0.4 in 1,000


def test_types_are_followed_from_target_to_source():
    graph = HeteroData()
    graph["paper"].x = torch.arange(3.0)[:, None]
    graph["author"].x = torch.arange(10.0, 14.0)[:, None]
    graph["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 2, 3], [0, 0, 1, 2]])
    batch = next(iter(NeighborLoader(graph, [-1], batch_size=1, input_nodes=("paper", torch.tensor([0])))))
    assert batch["paper"].x.flatten().tolist() == [0]
    assert batch["author"].x.flatten().tolist() == [10, 11]
    assert batch["author", "writes", "paper"].edge_index.tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize("arguments", [{"disjoint": True}, {"time_attr": "y"}, {"weight_attr": "w"}])
def test_what_only_the_native_library_can_is_said(large_graph, arguments):
    large_graph.w = torch.ones(large_graph.num_edges)
    with pytest.raises(ImportError, match="pyg-lib"):
        next(iter(NeighborLoader(large_graph, [2], batch_size=2, **arguments)))


def test_clusters_are_of_one_size_and_near(large_graph):
    parts = divide_graph(large_graph.edge_index, 200, 8)
    assert torch.bincount(parts).tolist() == [25] * 8
    source, target = large_graph.edge_index
    inside = (parts[source] == parts[target]).float().mean()
    assert inside > 0.6  # 1/8 by chance
    assert torch.bincount(divide_graph(large_graph.edge_index, 200, 7)).tolist() == [28, 29, 28, 29, 28, 29, 29]


def test_nodes_without_edges_and_several_components_are_divided_too():
    edges = torch.tensor([[0, 1, 4], [1, 0, 5]])
    parts = divide_graph(edges, 8, 4)
    assert torch.bincount(parts).tolist() == [2, 2, 2, 2]
    assert parts[0] == parts[1]
    assert parts[4] == parts[5]


def test_the_way_of_dividing_is_said(large_graph, caplog):
    clusters = ClusterData(large_graph, num_parts=4, log=False)
    assert "not by METIS" in caplog.text
    assert len(clusters) == 4


def test_values_are_kept_where_they_come_first():
    assert keep_first(torch.tensor([5, 2, 5, 9, 2, 1])).tolist() == [5, 2, 9, 1]
    assert keep_first(torch.tensor([], dtype=torch.long)).tolist() == []
