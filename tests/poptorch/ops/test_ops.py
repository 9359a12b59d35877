"""Ops that mark, print, slice, decode and sample."""

import itertools

import pytest
import torch
from torch import nn

import poptorch
from openipu.graph import note_of
from openipu.host.beam_search import search_beams
from openipu.host.tensor_text import FloatFormat, TextStyle, format_tensor


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def run(function, *args, options=None):
    return poptorch.inferenceModel(Function(function), options or quiet())(*args)


def list_notes(function, *args, options=None):
    """(op, note) of everything in the captured program."""
    executor = poptorch.inferenceModel(Function(function), options or quiet())
    executor.compile(*args)
    return [(str(node.target), note_of(node)) for node in executor._compiled.program.micro.module.graph.nodes]


def test_marks_reach_the_op_that_made_the_tensor():
    def forward(x):
        product = poptorch.set_available_memory(x @ x, 0.3)
        kept = poptorch.recomputationCheckpoint(torch.relu(product))
        return poptorch.serializedMatMul(kept, x, poptorch.MatMulSerializationMode.OutputChannels, 2)

    found = [(op, dict(note.attributes)) for op, note in list_notes(forward, torch.ones(4, 4)) if note.attributes]
    assert found == [
        ("aten.mm.default", {"available_memory_proportion": 0.3}),
        ("aten.relu.default", {"checkpoint": True}),
        ("aten.mm.default", {"serialization": ("output_channels", 2)}),
    ]


def test_marks_are_checked():
    x = torch.ones(4, 4)
    with pytest.raises(poptorch.Error, match=r"must divide the dimension to serialize on: reducing_dim has size 4"):
        run(lambda x: poptorch.serializedMatMul(x, x, poptorch.MatMulSerializationMode.ReducingDim, 3), x)
    with pytest.raises(poptorch.Error, match="between 0 and 1"):
        poptorch.set_available_memory(x, 1.5)
    with pytest.raises(poptorch.Error, match=r"You may only set available memory for torch\.tensor values"):
        poptorch.set_available_memory(1, 0.5)
    with pytest.raises(ValueError, match="All inputs must be tensors"):
        poptorch.recomputationCheckpoint(x, 1)


def test_checkpoints_keep_the_structure_they_were_given():
    x, y = torch.ones(1), torch.ones(2)
    assert poptorch.recomputationCheckpoint(x) is x
    assert poptorch.recomputationCheckpoint(x, y) == (x, y)
    assert poptorch.recomputationCheckpoint([x, y]) == [x, y]
    assert poptorch.recomputationCheckpoint((x,)) == (x,)


def test_names_and_attributes_last_as_long_as_their_scope():
    def forward(x):
        with poptorch.NameScope("outer"), poptorch.NameScope("inner"):
            y = x + 1
        with poptorch.Attribute(outline={"layer": "first"}), poptorch.Attribute(outline={"kind": "b"}):
            z = y * 2
        return z - 1

    found = dict(list_notes(forward, torch.ones(2)))
    assert found["aten.add.Tensor"].module.endswith("outer/inner")
    assert found["aten.mul.Tensor"].attributes == {"outline": {"layer": "first", "kind": "b"}}
    assert "outer" not in found["aten.sub.Tensor"].module
    assert not found["aten.sub.Tensor"].attributes


def test_settings_of_a_multi_convolution_reach_each_of_its_convolutions():
    first, second = nn.Conv2d(1, 2, 3), nn.Conv2d(1, 2, 3)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = first, second

        def forward(self, x):
            with poptorch.MultiConv().availableMemoryProportions([0.2, 0.4]).cycleBackOff(0.1):
                return self.first(x), self.second(x * 2)

    executor = poptorch.inferenceModel(Model(), quiet())
    executor(torch.ones(1, 1, 5, 5))
    nodes = executor._compiled.program.micro.module.graph.nodes
    notes = [note_of(node).attributes for node in nodes if "convolution" in str(node.target)]
    assert [note["available_memory_proportion"] for note in notes] == [0.2, 0.4]
    assert [note["cycle_back_off"] for note in notes] == [0.1, 0.1]
    assert notes[0]["multi_convolution"] == notes[1]["multi_convolution"]


def test_settings_of_a_multi_convolution_are_one_or_as_many_as_its_convolutions():
    group = poptorch.MultiConv().availableMemoryProportions([0.1, 0.2, 0.3])

    def forward(x):
        with group:
            return torch.conv2d(x, x)

    with pytest.raises(poptorch.Error, match="settings for 3 convolutions and holds 1"):
        run(forward, torch.ones(1, 1, 3, 3))


def test_overlapped_io_is_part_of_the_run_options():
    options = quiet().setExecutionStrategy(poptorch.ShardedExecution())
    options.TensorLocations.numIOTiles(32)

    def forward(pair):
        first, second = poptorch.set_overlap_for_input(pair, poptorch.OverlapMode.OverlapAccumulationLoop)
        return poptorch.set_overlap_for_output(first + second, poptorch.OverlapMode.OverlapAccumulationLoop)

    executor = poptorch.inferenceModel(Function(forward), options)
    assert executor((torch.ones(2), torch.ones(2))).tolist() == [2.0, 2.0]
    assert executor._compiled.plan.options.overlapped_io


def test_tensors_are_printed_at_each_run_with_their_gradients(capfd):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([1.0, 2.0]))

        def forward(self, x):
            return poptorch.identity_loss(poptorch.ipu_print_tensor(self.weight * x, "product"), "sum")

    model = Model()
    trained = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=1.0))
    x = torch.tensor([3.0, 4.0])
    trained(x)
    trained(x)
    # The second product: (1 - 1 * 3) * 3 and (2 - 1 * 4) * 4.
    assert capfd.readouterr().err.splitlines() == [
        "product: (3.000, 8.000)",
        "product_gradient: (1.000, 1.000)",
        "product: (-6.000, -8.000)",
        "product_gradient: (1.000, 1.000)",
    ]


def test_long_tensors_are_summarised_and_long_lines_broken():
    style = TextStyle(summarise_threshold=5, edge_items=1, digits=2)
    assert format_tensor(torch.arange(9).reshape(3, 3), style) == "(\n (0, ..., 2)\n ...\n (6, ..., 8)\n)"
    assert format_tensor(torch.arange(4), TextStyle(max_line_width=7)) == "(0, 1,\n  2, 3)"
    assert format_tensor(torch.tensor(2.5), TextStyle(), "x") == "x: 2.500"
    assert format_tensor(torch.tensor([True, False]), TextStyle()) == "(1, 0)"


def test_numbers_have_one_width_and_as_many_digits_as_asked_for():
    values = torch.tensor([-1.5, 20.25])
    assert format_tensor(values, TextStyle(digits=4)) == "(-1.50, 20.25)"
    assert format_tensor(torch.tensor([1.0, 1e9]), TextStyle(digits=3)) == "(1.00e+00, 1.00e+09)"
    assert format_tensor(torch.tensor([1.0, float("inf")]), TextStyle(digits=3)) == "(1.00,  inf)"
    assert format_tensor(values, TextStyle(float_format=FloatFormat.NONE)) == "( -1.5, 20.25)"
    assert format_tensor(torch.tensor([1, 200]), TextStyle()) == "(  1, 200)"


def test_a_slice_starts_where_the_data_says():
    executor = poptorch.inferenceModel(Function(lambda x, s: poptorch.dynamic_slice(x, 1, s, 4, 2)), quiet())
    x = torch.arange(16.0).reshape(2, 8)
    for start in (0, 3):
        assert torch.equal(executor(x, torch.tensor([start])), x[:, start : start + 4 : 2])


def test_an_update_leaves_its_input_alone():
    def forward(x, source, start):
        return poptorch.dynamic_update(x, source, 0, start, 2), x

    changed, same = run(forward, torch.zeros(4), torch.ones(2), torch.tensor(1))
    assert changed.tolist() == [0.0, 1.0, 1.0, 0.0]
    assert same.tolist() == [0.0] * 4


def count_paths(log_probabilities, blank):
    """Every alignment, collapsed: the slow and obvious decoder."""
    steps, classes = log_probabilities.shape
    totals = {}
    for alignment in itertools.product(range(classes), repeat=steps):
        path = tuple(label for label, _ in itertools.groupby(alignment) if label != blank)
        score = sum(log_probabilities[step, label] for step, label in enumerate(alignment)).exp()
        totals[path] = totals.get(path, 0) + float(score)
    return sorted(totals.items(), key=lambda entry: -entry[1])


def test_the_decoder_finds_the_paths_that_counting_all_alignments_finds():
    torch.manual_seed(0)
    probabilities = torch.log_softmax(torch.randn(4, 2, 3), -1)
    scores, lengths, labels = search_beams(probabilities, torch.tensor([4, 3]), 0, beam_width=100, top_paths=3)
    for sample, steps in enumerate((4, 3)):
        expected = count_paths(probabilities[:steps, sample], blank=0)[:3]
        for place, (path, probability) in enumerate(expected):
            assert tuple(labels[sample, place, : lengths[sample, place]].tolist()) == path
            assert float(scores[sample, place].exp()) == pytest.approx(probability, rel=1e-5)


def test_the_decoder_runs_inside_a_program_and_checks_its_arguments():
    probabilities = torch.log_softmax(torch.randn(5, 2, 4), -1)
    lengths = torch.tensor([5, 4], dtype=torch.int32)
    inside = run(lambda p, n: poptorch.ctc_beam_search_decoder(p, n, top_paths=2), probabilities, lengths)
    outside = poptorch.ctc_beam_search_decoder(probabilities, lengths, top_paths=2)
    for one, other in zip(inside, outside, strict=True):
        assert torch.equal(one, other)
    with pytest.raises(poptorch.Error, match="incorrect shape for probs"):
        poptorch.ctc_beam_search_decoder(probabilities[0], lengths)


def test_the_farthest_points_are_taken_cloud_by_cloud():
    points = torch.tensor([[0.0], [1.0], [10.0], [5.0], [6.0]])
    inside = run(lambda x: poptorch.fps(x, [0, 3, 5], 0.6), points)
    assert inside.tolist() == poptorch.fps(points, [0, 3, 5], 0.6).tolist() == [0, 2, 3, 4]
    with pytest.raises(poptorch.Error, match="`ptr` must be a list of integers"):
        poptorch.fps(points, (0, 5))


def test_the_nearest_point_is_one_of_the_same_batch():
    x, y = torch.tensor([[0.0], [4.0], [5.0]]), torch.tensor([[0.0], [5.0]])
    assert run(poptorch.nearest, x, y).tolist() == [0, 1, 1]
    assert run(lambda x, y: poptorch.nearest(x, y, [0, 0, 1], [0, 1]), x, y).tolist() == [0, 0, 1]


def test_names_under_torch_ops_are_there():
    def forward(x):
        torch.ops.poptorch.push_name_scope("part")
        y = torch.ops.poptorch.internal_cast(x, "FLOAT16")
        torch.ops.poptorch.pop_name_scope()
        return y

    found = {op: note.module for op, note in list_notes(forward, torch.ones(2))}
    assert found["aten._to_copy.default"].endswith("part")
    assert run(forward, torch.ones(2)).dtype is torch.float16
