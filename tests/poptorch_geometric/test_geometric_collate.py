"""Mini-batches of one size: what is counted, what is filled, what is trimmed, what is refused."""

import pytest
import torch
from torch_geometric.data import Batch, Data

from poptorch_geometric import FixedSizeOptions, make_exclude_keys
from poptorch_geometric.collate import CombinedBatchingCollater, FixedSizeCollater
from poptorch_geometric.pyg_collate import Collater


def collate(graphs, **changes):
    options = FixedSizeOptions(**{"num_nodes": 40, "num_edges": 90, "num_graphs": 5, **changes})
    return FixedSizeCollater(options, add_masks_to_batch=True)(graphs)


def test_a_padded_batch_has_exactly_the_sizes_that_were_asked_for(graphs):
    batch = collate(graphs[:4])  # 3 + 4 + 5 + 6 = 18 nodes, 36 edges
    assert isinstance(batch, Batch)
    assert isinstance(batch, Data)
    assert (batch.num_nodes, batch.num_edges, batch.num_graphs) == (40, 90, 5)
    assert batch.x.shape == (40, 4)
    assert batch.edge_attr.shape == (90, 2)
    assert batch.y.shape == (5,)
    assert batch.batch.tolist() == [0] * 3 + [1] * 4 + [2] * 5 + [3] * 6 + [4] * 22


def test_masks_say_what_is_real_and_real_graphs_are_unchanged(graphs):
    batch = collate(graphs[:4])
    plain = Batch.from_data_list(graphs[:4])
    assert batch.nodes_mask.tolist() == [True] * 18 + [False] * 22
    assert batch.edges_mask.tolist() == [True] * 36 + [False] * 54
    assert batch.graphs_mask.tolist() == [True] * 4 + [False]
    for key in ("x", "train_mask"):
        assert torch.equal(batch[key][batch.nodes_mask], plain[key])
    assert torch.equal(batch.edge_attr[batch.edges_mask], plain.edge_attr)
    assert torch.equal(batch.edge_index[:, batch.edges_mask], plain.edge_index)
    assert torch.equal(batch.y[batch.graphs_mask], plain.y)


def test_padding_is_filled_with_the_values_asked_for_and_masks_never_count_it(graphs):
    batch = collate(graphs[:4], node_pad_value=22.0, edge_pad_value=34.0, graph_pad_value=55.0)
    assert (batch.x[18:] == 22).all()
    assert (batch.edge_attr[36:] == 34).all()
    assert (batch.y[4:] == 55).all()
    assert not batch.train_mask[18:].any()


def test_edges_of_padding_touch_no_real_node(graphs):
    batch = collate(graphs[:2], num_graphs=6)
    ends = batch.edge_index[:, ~batch.edges_mask]
    assert (ends >= 7).all()  # 3 + 4 real nodes
    assert not batch.nodes_mask[ends].any()
    assert torch.equal(batch.batch[ends[0]], batch.batch[ends[1]])


def test_several_graphs_share_the_padding_evenly(graphs):
    batch = collate(graphs[:2], num_nodes=17, num_edges=30, num_graphs=5)  # 10 nodes, 16 edges for 3 graphs
    assert torch.bincount(batch.batch).tolist() == [3, 4, 4, 3, 3]
    owners = batch.batch[batch.edge_index[0, ~batch.edges_mask]]
    assert torch.bincount(owners).tolist()[2:] == [6, 5, 5]


def test_more_graphs_of_padding_than_nodes_of_it_leave_some_empty(graphs):
    batch = collate(graphs[:2], num_nodes=8, num_edges=20, num_graphs=5)  # one node for three graphs
    assert torch.bincount(batch.batch, minlength=5).tolist() == [3, 4, 1, 0, 0]
    assert (batch.edge_index[:, ~batch.edges_mask] == 7).all()


def test_attributes_that_are_no_tensors_are_repeated_unless_a_default_is_given(graphs):
    assert collate(graphs[:1], num_graphs=2).name == ["graph 3", "graph 3"]
    named = collate(graphs[:1], num_graphs=2, pad_graph_defaults={"name": "padding"})
    assert named.name == ["graph 3", "padding"]


def test_a_graph_of_one_node_does_not_make_its_label_one_of_nodes(graphs):
    options = FixedSizeOptions(num_nodes=20, num_edges=40, num_graphs=2)
    collater = FixedSizeCollater(options)
    alone = Data(x=torch.zeros(1, 4), edge_index=torch.empty(2, 0, dtype=torch.long), y=torch.tensor([1]))
    alone.update({"edge_attr": torch.empty(0, 2), "train_mask": torch.tensor([True]), "name": "alone"})
    assert collater([graphs[0]]).y.shape == (2,)
    assert collater([alone]).y.shape == (2,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_nodes": 17}, "have 18 nodes, but the fixed sizes have room for 17.*TrimNodes"),
        ({"num_edges": 35}, "have 36 edges, but the fixed sizes have room for 35.*TrimEdges"),
        ({"num_graphs": 3}, "4 graphs for a mini-batch of 3"),
        ({"num_graphs": 4}, "no graph left that could take the padding"),
        ({"num_nodes": 18}, "54 edges of padding have no node"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_do(graphs, changes, message):
    with pytest.raises(RuntimeError, match=message):
        collate(graphs[:4], **changes)


def test_a_batch_that_is_full_needs_no_padding(graphs):
    batch = collate(graphs[:4], num_nodes=18, num_edges=36, num_graphs=4)
    assert batch.graphs_mask.all()
    assert torch.equal(batch.x, Batch.from_data_list(graphs[:4]).x)


def test_only_lists_of_graphs_of_one_kind_are_collated(graphs, hetero_graphs):
    with pytest.raises(TypeError, match="Expected list, got tuple"):
        collate(tuple(graphs))
    with pytest.raises(ValueError, match="not a Tensor"):
        collate([torch.zeros(3)])
    with pytest.raises(ValueError, match="not both"):
        collate([graphs[0], hetero_graphs[0]])
    with pytest.raises(ValueError, match="no graphs"):
        collate([])


def test_a_sparse_adjacency_is_refused_by_name(graphs):
    graphs[0].adj_t = torch.eye(3).to_sparse()
    with pytest.raises(ValueError, match="'adj_t' is a sparse matrix"):
        collate(graphs[:1], num_graphs=2)


def test_trimming_leaves_room_for_padding_and_a_node_of_each_graph(graphs):
    torch.manual_seed(0)
    options = FixedSizeOptions(num_nodes=10, num_edges=12, num_graphs=5)
    batch = FixedSizeCollater(options, add_masks_to_batch=True, trim_nodes=True, trim_edges=True)(graphs[:4])
    assert (batch.num_nodes, batch.num_edges) == (10, 12)
    assert int(batch.nodes_mask.sum()) == 9
    assert (torch.bincount(batch.batch) > 0).all()
    ends = batch.edge_index[:, batch.edges_mask]
    assert torch.equal(batch.batch[ends[0]], batch.batch[ends[1]])


def test_trimming_is_repeated_by_a_seed(graphs):
    options = FixedSizeOptions(num_nodes=10, num_edges=12, num_graphs=5)
    collater = FixedSizeCollater(options, trim_nodes=True, trim_edges=True)
    made = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        made.append(collater(graphs[:4]).x)
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


def test_trimmed_edges_are_edges_of_the_graph(graphs):
    options = FixedSizeOptions(num_nodes=20, num_edges=5, num_graphs=2)
    batch = FixedSizeCollater(options, add_masks_to_batch=True, trim_edges=True)([graphs[4]])
    known = set(map(tuple, graphs[4].edge_index.t().tolist()))
    assert set(map(tuple, batch.edge_index[:, batch.edges_mask].t().tolist())) <= known


def test_too_few_nodes_for_one_of_each_graph_are_refused(graphs):
    options = FixedSizeOptions(num_nodes=4, num_edges=12, num_graphs=5)
    with pytest.raises(RuntimeError, match="cannot be trimmed to 3: 4 have to stay"):
        FixedSizeCollater(options, trim_nodes=True)(graphs[:4])


def test_each_type_of_a_heterogeneous_graph_has_its_own_size(hetero_graphs):
    options = FixedSizeOptions(
        num_nodes={"paper": 30, "author": 40},
        num_edges={("author", "writes", "paper"): 50, ("paper", "cites", "paper"): 20},
        num_graphs=3,
    )
    batch = FixedSizeCollater(options, add_masks_to_batch=True)(hetero_graphs[:2])
    assert batch["paper"].x.shape == (30, 3)
    assert batch["author"].x.shape == (40, 5)
    assert batch["author", "writes", "paper"].edge_index.shape == (2, 50)
    assert batch["paper", "cites", "paper"].edge_index.shape == (2, 20)
    assert int(batch["paper"].nodes_mask.sum()) == 4 + 5
    assert int(batch["author", "writes", "paper"].edges_mask.sum()) == 18
    assert batch.graphs_mask.tolist() == [True, True, False]
    assert batch.y.tolist() == [4, 5, 0]
    ends = batch["author", "writes", "paper"].edge_index[:, 18:]
    assert not batch["author"].nodes_mask[ends[0]].any()
    assert not batch["paper"].nodes_mask[ends[1]].any()


def test_one_number_is_for_each_type(hetero_graphs):
    options = FixedSizeOptions(num_nodes=30, num_edges=40, num_graphs=3)
    batch = FixedSizeCollater(options)(hetero_graphs[:2])
    assert batch.num_nodes == 60 == options.total_num_nodes
    assert batch.num_edges == 80 == options.total_num_edges


def test_a_type_without_a_size_is_named(hetero_graphs):
    options = FixedSizeOptions(num_nodes={"paper": 30}, num_edges=40, num_graphs=3)
    with pytest.raises(RuntimeError, match=r"num_nodes of the fixed sizes says nothing of \['author'\]"):
        FixedSizeCollater(options)(hetero_graphs[:2])


def test_heterogeneous_graphs_are_trimmed_by_type(hetero_graphs):
    options = FixedSizeOptions(num_nodes=6, num_edges=5, num_graphs=3)
    batch = FixedSizeCollater(options, add_masks_to_batch=True, trim_nodes=True, trim_edges=True)(hetero_graphs[:2])
    assert batch["paper"].num_nodes == batch["author"].num_nodes == 6
    assert batch["paper", "cites", "paper"].num_edges == 5


def test_mini_batches_of_a_call_are_joined_along_dimension_0(graphs):
    options = FixedSizeOptions(num_nodes=40, num_edges=90, num_graphs=3)
    joined = CombinedBatchingCollater(FixedSizeCollater(options), mini_batch_size=2)(graphs[:6])
    assert joined.x.shape == (120, 4)
    assert joined.edge_index.shape == (6, 90)
    assert (joined.num_nodes, joined.num_graphs) == (40, 3)
    assert torch.equal(joined.x[40:80], FixedSizeCollater(options)(graphs[2:4]).x)


def test_mini_batches_that_differ_are_not_joined(graphs):
    with pytest.raises(RuntimeError, match=r"has another shape in each mini-batch.*FixedSizeDataLoader"):
        CombinedBatchingCollater(Collater(), mini_batch_size=2)(graphs[:4])
    with pytest.raises(AssertionError, match="Invalid batch size: 3 samples"):
        CombinedBatchingCollater(Collater(), mini_batch_size=2)(graphs[:3])


def test_keys_that_are_not_wanted_are_those_that_were_not_named(graphs):
    excluded = make_exclude_keys(("x", "y"), graphs[0])
    assert set(excluded) == {"edge_index", "edge_attr", "train_mask", "name"}
    assert set(Collater(exclude_keys=excluded)(graphs[:2]).keys()) == {"x", "y", "batch", "ptr"}
