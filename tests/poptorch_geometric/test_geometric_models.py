"""Models on padded batches: the numbers of plain PyTorch Geometric, graphs as inputs and outputs, and the plan."""

import subprocess
import sys

import pytest
import torch
from torch.nn import functional
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GINConv, SAGEConv, global_mean_pool
from torch_geometric.nn.models import MLP

import poptorch
import poptorch_geometric
from poptorch_geometric import (
    FixedSizeDataLoader,
    FixedSizeOptions,
    PyGArgsParser,
    TrainingStepper,
    set_aggregation_dim_size,
)


class Classifier(torch.nn.Module):
    """A convolution, a mean over each graph, and a loss over graphs that are real."""

    def __init__(self, conv, batch_size):
        super().__init__()
        self.conv, self.batch_size = conv, batch_size
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x, edge_index, batch, graphs_mask, y):
        pooled = global_mean_pool(self.conv(x, edge_index).relu(), batch, size=self.batch_size)
        out = self.head(pooled)
        return out, functional.cross_entropy(out, torch.where(graphs_mask, y, -100))


CONVS = {
    "gcn": lambda: GCNConv(4, 8, add_self_loops=False),
    "sage": lambda: SAGEConv(4, 8),
    "sage of maxima": lambda: SAGEConv(4, 8, aggr="max"),
    "gin": lambda: GINConv(MLP([4, 8, 8], norm=None)),
}


@pytest.mark.parametrize("name", CONVS)
def test_training_on_padded_batches_is_that_of_plain_pyg(graphs, name):
    torch.manual_seed(0)
    loader = FixedSizeDataLoader(graphs, batch_size=4)
    batch = next(iter(loader))
    # A node without edges has 0 to the power of -1/2 in a GCN's norm, which that replaces afterwards.
    stepper = TrainingStepper(Classifier(CONVS[name](), 4), atol=1e-5, rtol=1e-4, enable_fp_exception=name != "gcn")
    stepper.run(3, (batch.x, batch.edge_index, batch.batch, batch.graphs_mask, batch.y))
    stepper.training_model.destroy()


def test_padding_changes_nothing_for_real_graphs(graphs):
    torch.manual_seed(0)
    model = Classifier(CONVS["gcn"](), 4).eval()
    plain = Batch.from_data_list(graphs[:3])
    real = torch.ones(3, dtype=torch.bool)
    model.batch_size = 3
    expected, expected_loss = model(plain.x, plain.edge_index, plain.batch, real, plain.y)
    model.batch_size = 4
    padded = next(iter(FixedSizeDataLoader(graphs, batch_size=4)))
    compiled = poptorch.inferenceModel(model)
    out, loss = compiled(padded.x, padded.edge_index, padded.batch, padded.graphs_mask, padded.y)
    torch.testing.assert_close(out[:3], expected)
    torch.testing.assert_close(loss, expected_loss)
    compiled.destroy()


def test_mini_batches_of_a_call_are_trained_one_after_the_other(graphs):
    """Two mini-batches in a call are two steps of plain PyTorch on one each."""
    options = poptorch.Options().deviceIterations(2)
    options.outputMode(poptorch.OutputMode.All)
    torch.manual_seed(0)
    model = Classifier(CONVS["sage"](), 3)
    reference = Classifier(CONVS["sage"](), 3)
    reference.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    sizes = FixedSizeOptions.from_dataset(graphs, 3)
    expected = []
    for batch in list(FixedSizeDataLoader(graphs, 3, fixed_size_options=sizes))[:2]:
        optimizer.zero_grad()
        _, loss = reference(batch.x, batch.edge_index, batch.batch, batch.graphs_mask, batch.y)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    training = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.1))
    batch = next(iter(FixedSizeDataLoader(graphs, 3, fixed_size_options=sizes, options=options)))
    _, losses = training(batch.x, batch.edge_index, batch.batch, batch.graphs_mask, batch.y)
    assert losses.tolist() == pytest.approx(expected, rel=1e-5)
    training.destroy()


class OnGraph(torch.nn.Module):
    """Takes a graph and returns it with more in it."""

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(4, 3, add_self_loops=False)

    def forward(self, graph):
        graph.out = self.conv(graph.x, graph.edge_index)
        if self.training:
            return graph, functional.cross_entropy(graph.out, graph.train_mask.long())
        return graph


def test_a_graph_goes_in_and_comes_out_and_is_compiled_once(graphs):
    torch.manual_seed(0)
    model = OnGraph().eval()
    compiled = poptorch.inferenceModel(model)
    loader = FixedSizeDataLoader(graphs, batch_size=4)
    compilations = []
    handle = poptorch.registerPostCompileHook(lambda: compilations.append(1))
    for batch in loader:
        result = compiled(batch)
        assert isinstance(result, Data)
        assert type(result) is type(batch)
        torch.testing.assert_close(result.out, model.conv(batch.x, batch.edge_index))
        assert torch.equal(result.batch, batch.batch)
        assert "out" not in batch
    handle.remove()
    assert len(loader) > 1 == len(compilations)
    compiled.destroy()


def test_graphs_are_understood_without_importing_the_package():
    program = (
        "import torch, poptorch\n"
        "from torch_geometric.data import Data\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, graph):\n"
        "        return graph.x * 2\n"
        "graph = Data(x=torch.ones(3, 2), edge_index=torch.zeros(2, 4, dtype=torch.long))\n"
        "print(poptorch.inferenceModel(Model())(graph).sum().item())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "12.0", done.stderr


def test_a_graph_is_taken_apart_in_order_and_built_again(graphs, hetero_graphs):
    parser = PyGArgsParser()
    for graph in (graphs[0], Batch.from_data_list(graphs[:2]), hetero_graphs[0], Batch.from_data_list(hetero_graphs)):
        tensors = list(parser.yieldTensors(graph))
        made = parser.reconstruct(graph, iter([tensor.clone() for tensor in tensors]))
        assert type(made) is type(graph)
        assert made is not graph
        for ours, theirs in zip(parser.yieldTensors(made), tensors, strict=True):
            assert torch.equal(ours, theirs)
        assert made.num_nodes == graph.num_nodes
    with pytest.raises(ValueError, match="not a dict"):
        list(parser.yieldTensors({}))


def test_message_passing_aggregates_to_a_size_that_was_set(graphs):
    conv = SAGEConv(4, 8)
    set_aggregation_dim_size(conv, 20)
    out = conv((graphs[0].x, torch.zeros(20, 4)), graphs[0].edge_index)
    assert out.shape == (20, 8)


def test_a_difference_from_the_cpu_is_named(graphs):
    stepper = TrainingStepper(Classifier(CONVS["sage"](), 4))
    batch = next(iter(FixedSizeDataLoader(graphs, batch_size=4)))
    arguments = (batch.x, batch.edge_index, batch.batch, batch.graphs_mask, batch.y)
    with torch.no_grad():
        stepper.cpu_model.head.bias += 1
    with pytest.raises(AssertionError, match="results of step 0"):
        stepper.run(1, arguments)
    with pytest.raises(ValueError, match="run takes one batch"):
        stepper.run(1)
    stepper.training_model.destroy()
    with pytest.raises(RuntimeError, match="evaluation mode"):
        TrainingStepper(Classifier(CONVS["gcn"](), 4).eval()).ipu_step(arguments)
    with pytest.raises(NotImplementedError, match="not gpu"):
        stepper.benchmark(1, arguments, devices="gpu")


def test_names_of_earlier_releases_say_what_took_their_place():
    with pytest.raises(AttributeError, match="has FixedSizeDataLoader in its place"):
        _ = poptorch_geometric.CustomFixedSizeDataLoader
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = poptorch_geometric.Nothing
