"""Neighbours in space without native libraries."""

import pytest
import torch
from torch_geometric.nn import knn, knn_graph, radius, radius_graph

POINTS = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [1.0, -1.0]])


def read(pairs):
    return sorted(map(tuple, pairs.t().tolist()))


def test_points_within_a_distance_are_found_from_those_that_look():
    found = radius(POINTS, torch.tensor([[-1.0, 0.0], [1.0, 0.0]]), 1.5)
    assert read(found) == [(0, 0), (0, 1), (1, 2), (1, 3)]


def test_points_of_other_examples_are_not_neighbours():
    batch = torch.tensor([0, 0, 1, 1])
    assert read(radius_graph(POINTS, r=2.5, batch=batch)) == [(0, 1), (1, 0), (2, 3), (3, 2)]
    assert read(knn_graph(POINTS, k=3, batch=batch)) == [(0, 1), (1, 0), (2, 3), (3, 2)]


def test_the_nearest_are_kept_where_there_are_too_many():
    line = torch.tensor([[0.0], [1.0], [3.0], [6.0]])
    assert read(radius(line, line[:1], r=10, max_num_neighbors=2)) == [(0, 0), (0, 1)]
    assert read(radius_graph(line, r=10, max_num_neighbors=1)) == [(0, 1), (1, 0), (1, 2), (2, 3)]


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_edges_go_from_neighbours_unless_told_otherwise(flow):
    line = torch.tensor([[0.0], [1.0], [3.0]])
    edges = read(knn_graph(line, k=1, flow=flow))
    assert edges == ([(0, 1), (1, 0), (1, 2)] if flow == "source_to_target" else [(0, 1), (1, 0), (2, 1)])
    assert len(read(knn_graph(line, k=1, loop=True))) == 3


def test_directions_are_compared_where_that_is_asked_for():
    points = torch.tensor([[1.0, 0.0], [5.0, 0.1], [0.0, 1.0]])
    assert read(knn(points, points[:1], k=2, cosine=True)) == [(0, 0), (0, 1)]
