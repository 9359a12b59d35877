"""Layers of PyTorch Geometric that look at values have a static form while they are captured, with the same numbers."""

import pytest
import torch
from torch_geometric.nn import GRUAggregation, HeteroLinear, HGTConv, SortAggregation, knn, knn_graph

import poptorch


def run(module, *args):
    compiled = poptorch.inferenceModel(module)
    result = compiled(*args)
    compiled.destroy()
    return result


class Call(torch.nn.Module):
    """A function of inputs, which may use a layer."""

    def __init__(self, function, layer=None):
        super().__init__()
        self.function, self.layer = function, layer

    def forward(self, *args):
        return self.function(*args)


@pytest.mark.parametrize("bias", [True, False])
def test_rows_are_multiplied_by_the_weights_of_their_type(bias):
    torch.manual_seed(0)
    layer = HeteroLinear(6, 5, num_types=3, bias=bias).eval()
    x, kinds = torch.randn(10, 6), torch.tensor([0, 2, 1, 1, 0, 2, 2, 0, 1, 0])
    torch.testing.assert_close(run(layer, x, kinds), layer(x, kinds))


def test_an_aggregation_in_the_order_of_its_index_is_that_of_pyg():
    torch.manual_seed(0)
    x, index = torch.randn(6, 4), torch.tensor([0, 0, 1, 1, 1, 2])
    gru = GRUAggregation(4, 3).eval()
    out = run(Call(lambda x, i: gru(x, i, dim_size=3, max_num_elements=3), gru), x, index)
    torch.testing.assert_close(out, gru(x, index, dim_size=3))
    sort = SortAggregation(k=2)
    out = run(Call(lambda x, i: sort(x, i, dim_size=3, max_num_elements=3)), x, index)
    torch.testing.assert_close(out, sort(x, index))
    with pytest.raises(ValueError, match="sorted"):
        gru(x, index.flip(0))


def test_the_nearest_points_are_found_in_a_static_graph():
    torch.manual_seed(0)
    points, batch = torch.randn(12, 3), torch.tensor([0] * 6 + [1] * 6)
    assert torch.equal(run(Call(lambda x, b: knn_graph(x, 4, b)), points, batch), knn_graph(points, 4, batch))
    expected = knn(points, points[:3], 2, batch, batch[:3])
    assert torch.equal(run(Call(lambda x, y, b: knn(x, y, 2, b, b[:3])), points, points[:3], batch), expected)


def test_a_transformer_of_heterogeneous_graphs_is_captured(hetero_graphs):
    torch.manual_seed(0)
    graph = hetero_graphs[0]
    channels = {"paper": 3, "author": 5}
    conv = HGTConv(channels, 8, graph.metadata(), heads=2).eval()
    expected = conv(graph.x_dict, graph.edge_index_dict)["paper"]
    out = run(Call(lambda x, e: conv(x, e)["paper"], conv), graph.x_dict, graph.edge_index_dict)
    torch.testing.assert_close(out, expected)
