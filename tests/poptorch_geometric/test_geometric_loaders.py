"""Loaders: which graphs come together, in which sizes, for one call of a model."""

import pytest
import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch_geometric.loader import ClusterData, ClusterLoader, NeighborLoader
from torch_geometric.loader import DataLoader as PyGLoader

import poptorch
from poptorch_geometric import FixedSizeDataLoader, FixedSizeOptions, FixedSizeStrategy, OverSizeStrategy
from poptorch_geometric.cluster_loader import FixedSizeClusterLoader
from poptorch_geometric.dataloader import DataLoader
from poptorch_geometric.neighbor_loader import FixedSizeNeighborLoader
from poptorch_geometric.pyg_cluster_loader import FixedSizeClusterLoader as PyGFixedSizeClusterLoader
from poptorch_geometric.pyg_dataloader import FixedSizeDataLoader as PyGFixedSizeDataLoader
from poptorch_geometric.stream_packing_sampler import StreamPackingSampler


def read_names(batch, real_only=True):
    return [name for name, real in zip(batch.name, batch.graphs_mask.tolist(), strict=True) if real or not real_only]


def test_sizes_of_a_dataset_are_room_for_any_of_its_graphs_and_one_for_padding(graphs):
    options = FixedSizeOptions.from_dataset(graphs, batch_size=4)
    assert (options.num_nodes, options.num_edges, options.num_graphs) == (3 * 12 + 1, 3 * 24 + 1, 4)
    few = FixedSizeOptions.from_dataset(graphs, batch_size=4, sample_limit=2)
    assert (few.num_nodes, few.num_edges) == (3 * 4 + 1, 3 * 8 + 1)


def test_sizes_of_a_loader_are_those_of_its_largest_batch_and_padding(graphs, hetero_graphs):
    options = FixedSizeOptions.from_loader(PyGLoader(graphs, batch_size=5))
    assert (options.num_nodes, options.num_edges, options.num_graphs) == (50 + 1, 100 + 1, 6)
    hetero = FixedSizeOptions.from_loader(PyGLoader(hetero_graphs, batch_size=2))
    assert hetero.num_nodes == {"paper": 8 + 9 + 1, "author": 10 + 11 + 1}
    assert hetero.num_edges == {("author", "writes", "paper"): 19, ("paper", "cites", "paper"): 15}
    assert hetero.is_hetero()


def test_sizes_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="num_graphs is 1: it must be at least 2"):
        FixedSizeOptions(num_nodes=3, num_graphs=1)
    with pytest.raises(ValueError, match="num_nodes is -1"):
        FixedSizeOptions(num_nodes=-1)
    with pytest.raises(ValueError, match=r"num_edges is 2\.5"):
        FixedSizeOptions(num_nodes=3, num_edges=2.5)
    with pytest.raises(ValueError, match="not one sample"):
        FixedSizeOptions.from_dataset([], batch_size=2)
    assert FixedSizeOptions(num_nodes=10).num_edges == 10 * 9


def test_edges_of_a_type_are_as_many_as_its_nodes_allow_unless_given():
    options = FixedSizeOptions(num_nodes={"paper": 4, "author": 3})
    with pytest.raises(ValueError, match="not known before to_hetero"):
        _ = options.total_num_edges
    options.to_hetero(["paper", "author"], [("author", "writes", "paper"), ("paper", "cites", "paper")])
    assert options.num_edges == {("author", "writes", "paper"): 12, ("paper", "cites", "paper"): 12}


def test_every_batch_has_one_graph_of_padding_and_the_others_are_real(graphs):
    loader = FixedSizeDataLoader(graphs, batch_size=4)
    batches = list(loader)
    assert len(loader) == len(batches) == 3  # of 3 real graphs each; the tenth is dropped
    assert {tuple(batch.x.shape) for batch in batches} == {(37, 4)}
    assert read_names(batches[0]) == ["graph 3", "graph 4", "graph 5"]
    assert all(batch.graphs_mask.tolist() == [True, True, True, False] for batch in batches)


def test_the_loader_for_ipus_is_one_of_poptorch():
    order = FixedSizeDataLoader.__mro__[:4]
    assert order == (FixedSizeDataLoader, PyGFixedSizeDataLoader, poptorch.DataLoader, TorchDataLoader)


def test_a_call_gets_all_of_its_mini_batches(graphs):
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(2)
    [batch] = FixedSizeDataLoader(graphs, batch_size=3, options=options)  # 2 real graphs in each of 4
    assert batch.edge_index.shape == (8, 49)
    assert batch.graphs_mask.tolist() == [True, True, False] * 4


def test_packing_fills_batches_in_order_and_loses_nothing(graphs):
    sizes = FixedSizeOptions(num_nodes=26, num_edges=60, num_graphs=6)
    loader = FixedSizeDataLoader(
        graphs, batch_size=6, fixed_size_options=sizes, fixed_size_strategy=FixedSizeStrategy.StreamPack
    )
    packs = [read_names(batch) for batch in loader]
    # Nodes are 3 to 12 and 25 fit beside one of padding: 3+4+5+6+7 = 25, 8+9 = 17, 10+11 = 21, 12.
    numbers = [[int(name.split()[1]) for name in pack] for pack in packs]
    assert numbers == [[3, 4, 5, 6, 7], [8, 9], [10, 11], [12]]
    assert len(loader) == 4


def test_packs_of_a_call_are_joined(graphs):
    sizes = FixedSizeOptions(num_nodes=26, num_edges=60, num_graphs=6)
    options = poptorch.Options().deviceIterations(2)
    loader = FixedSizeDataLoader(
        graphs,
        batch_size=6,
        fixed_size_options=sizes,
        fixed_size_strategy=FixedSizeStrategy.StreamPack,
        options=options,
        drop_last=True,
    )
    batches = list(loader)
    assert len(loader) == len(batches) == 2
    assert batches[0].x.shape == (52, 4)
    assert batches[0].graphs_mask.tolist() == [True] * 5 + [False] + [True] * 2 + [False] * 4


@pytest.mark.parametrize("strategy", list(FixedSizeStrategy))
def test_shuffling_is_repeated_by_a_seed(graphs, strategy):
    drawn = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        loader = FixedSizeDataLoader(graphs, batch_size=4, shuffle=True, fixed_size_strategy=strategy)
        drawn.append([read_names(batch) for batch in loader])
    assert drawn[0] == drawn[1] != drawn[2]


def test_counting_packs_does_not_change_what_an_epoch_draws(graphs):
    def draw(count):
        torch.manual_seed(1)
        sampler = StreamPackingSampler(graphs, 3, base_sampler=torch.utils.data.RandomSampler(graphs))
        if count:
            len(sampler)
        return list(sampler)

    assert draw(count=True) == draw(count=False)


def test_a_graph_that_is_too_large_is_an_error_skipped_or_trimmed(graphs):
    sizes = FixedSizeOptions(num_nodes=11, num_edges=22, num_graphs=3)

    def load(strategy, over):
        return FixedSizeDataLoader(
            graphs, 3, fixed_size_options=sizes, fixed_size_strategy=strategy, over_size_strategy=over
        )

    strict = load(FixedSizeStrategy.StreamPack, OverSizeStrategy.Error)  # is only told of it when it loads
    with pytest.raises(RuntimeError, match=r"Sample 8 has 11 nodes and 22 edges, which alone is more"):
        list(strict)
    with pytest.raises(RuntimeError, match="have 15 nodes, but the fixed sizes have room for 11"):
        list(load(FixedSizeStrategy.PadToMax, OverSizeStrategy.Error))
    skipped = [read_names(batch) for batch in load(FixedSizeStrategy.StreamPack, OverSizeStrategy.Skip)]
    assert [len(names) for names in skipped] == [2, 1, 1, 1, 1, 1, 1]  # 3+4, 5, 6, ... 10; 11 and 12 are left out
    trimmed = list(load(FixedSizeStrategy.StreamPack, OverSizeStrategy.TrimNodesAndEdges))
    assert len(trimmed) == 9  # 3+4, and each of 5 to 12 alone
    assert {tuple(batch.x.shape) for batch in trimmed} == {(11, 4)}
    assert int(trimmed[-1].nodes_mask.sum()) == 10


def test_skipping_keeps_the_number_of_real_graphs(graphs):
    sizes = FixedSizeOptions(num_nodes=12, num_edges=30, num_graphs=3)
    loader = FixedSizeDataLoader(graphs, 3, fixed_size_options=sizes, over_size_strategy=OverSizeStrategy.Skip)
    # 3+4 fit into 11; 5+6 do; 7 does, and nothing after it: that batch is not full.
    assert [read_names(batch) for batch in loader] == [["graph 3", "graph 4"], ["graph 5", "graph 6"]]


def test_arguments_that_contradict_each_other_are_refused(graphs):
    sizes = FixedSizeOptions(num_nodes=50, num_graphs=3)
    with pytest.raises(ValueError, match="batch_size is 4 and num_graphs of the fixed sizes is 3"):
        FixedSizeDataLoader(graphs, batch_size=4, fixed_size_options=sizes)
    sampler = StreamPackingSampler(graphs, max_num_graphs=2)
    with pytest.raises(ValueError, match="batch_sampler already says"):
        FixedSizeDataLoader(
            graphs, 3, batch_sampler=sampler, fixed_size_strategy=FixedSizeStrategy.StreamPack, fixed_size_options=sizes
        )
    with pytest.raises(ValueError, match="collate_fn is what these loaders choose"):
        DataLoader(graphs, collate_fn=list)
    with pytest.raises(ValueError, match="max_num_graphs is 0"):
        StreamPackingSampler(graphs, max_num_graphs=0)
    with pytest.raises(TypeError, match="has no length"):
        len(StreamPackingSampler(graphs, 2, base_sampler=iter([1, 2])))


def test_a_sampler_of_whole_batches_is_used_as_it_is(graphs):
    sampler = StreamPackingSampler(graphs, max_num_graphs=3)
    assert sampler.max_num_nodes == 36
    loader = PyGFixedSizeDataLoader(graphs, batch_size=4, batch_sampler=sampler)
    assert [batch.num_nodes for batch in loader] == [37] * 4


def test_heterogeneous_packs_keep_to_the_size_of_each_type(hetero_graphs):
    sizes = FixedSizeOptions(num_nodes={"paper": 12, "author": 100}, num_edges=100, num_graphs=6)
    loader = FixedSizeDataLoader(
        hetero_graphs, 6, fixed_size_options=sizes, fixed_size_strategy=FixedSizeStrategy.StreamPack
    )
    assert [int(batch["paper"].nodes_mask.sum()) for batch in loader] == [9, 6, 7, 8, 9]


def test_the_plain_loader_joins_graphs_of_one_size(graphs):
    options = poptorch.Options().deviceIterations(3)
    [batch] = DataLoader([graphs[0]] * 6, batch_size=2, options=options)
    assert batch.x.shape == (18, 4)
    assert batch.edge_index.shape == (6, 12)


def test_clusters_are_joined_with_the_edges_between_them_and_padded(large_graph):
    clusters = ClusterData(large_graph, num_parts=8, log=False)
    sizes = FixedSizeOptions.from_loader(ClusterLoader(clusters, batch_size=2))
    assert sizes.num_nodes == 51
    options = poptorch.Options().deviceIterations(2)
    loader = FixedSizeClusterLoader(clusters, sizes, batch_size=2, options=options)
    batches = list(loader)
    assert len(loader) == len(batches) == 2
    assert batches[0].x.shape == (102, 1)
    seen = torch.cat([batch.x[batch.nodes_mask].flatten() for batch in batches])
    assert sorted(seen.tolist()) == list(range(200))
    plain = next(iter(ClusterLoader(clusters, batch_size=2)))
    first = next(iter(PyGFixedSizeClusterLoader(clusters, sizes, batch_size=2)))
    assert torch.equal(first.x[first.nodes_mask], plain.x)
    assert torch.equal(first.edge_index[:, first.edges_mask], plain.edge_index)


def test_clusters_that_do_not_fit_are_trimmed_unless_that_is_to_be_an_error(large_graph):
    clusters = ClusterData(large_graph, num_parts=8, log=False)
    sizes = FixedSizeOptions(num_nodes=20, num_edges=30)
    assert {batch.num_nodes for batch in FixedSizeClusterLoader(clusters, sizes)} == {20}
    with pytest.raises(RuntimeError, match="have 25 nodes"):
        next(iter(FixedSizeClusterLoader(clusters, sizes, over_size_strategy=OverSizeStrategy.Error)))
    with pytest.raises(ValueError, match=r"OverSizeStrategy\.Skip is for samples of a dataset"):
        FixedSizeClusterLoader(clusters, sizes, over_size_strategy=OverSizeStrategy.Skip)
    with pytest.raises(ValueError, match="num_graphs of the fixed sizes is 3: clusters become one graph"):
        FixedSizeClusterLoader(clusters, FixedSizeOptions(num_nodes=20, num_graphs=3))


def test_sampled_neighbourhoods_begin_with_their_nodes_and_are_padded(large_graph):
    options = poptorch.Options().deviceIterations(2)
    loader = FixedSizeNeighborLoader(large_graph, [2, 2], batch_size=4, options=options)
    size = loader.fixed_size_options.num_nodes
    batch = next(iter(loader))
    assert batch.x.shape == (2 * size, 1)
    assert batch.x[:4].flatten().tolist() == [0, 1, 2, 3]
    assert batch.x[size : size + 4].flatten().tolist() == [4, 5, 6, 7]
    assert batch["batch_size"] == 4


def test_trimming_keeps_the_nodes_that_sampling_began_with(large_graph):
    sizes = FixedSizeOptions(num_nodes=8, num_edges=6)
    for number, batch in enumerate(
        FixedSizeNeighborLoader(large_graph, [2, 2], batch_size=5, fixed_size_options=sizes)
    ):
        assert batch.x[:5].flatten().tolist() == list(range(5 * number, 5 * number + 5))
        assert (batch.num_nodes, batch.num_edges) == (8, 6)
    with pytest.raises(RuntimeError, match="cannot be trimmed to 7: 8 have to stay"):
        next(iter(FixedSizeNeighborLoader(large_graph, [2, 2], batch_size=8, fixed_size_options=sizes)))


def test_one_type_of_a_heterogeneous_graph_is_sampled_from(hetero_graphs):
    graph = hetero_graphs[-1]
    loader = FixedSizeNeighborLoader(graph, [2, 2], batch_size=3, input_nodes="paper")
    dynamic = next(iter(NeighborLoader(graph, [-1, -1], batch_size=3, input_nodes="paper")))
    batch = next(iter(loader))
    assert torch.equal(batch["paper"].x[:3], graph["paper"].x[:3])
    assert batch["paper"].batch_size == dynamic["paper"].batch_size == 3
    assert batch["paper"].num_nodes == loader.fixed_size_options.num_nodes["paper"]
