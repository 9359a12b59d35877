"""A step in parts computes what the whole one does, to the bit, and equal layers are one part."""

import os
import shutil
import subprocess
import sys

import pytest
import torch
from torch import fx, nn

from openipu.errors import ArchiveError
from openipu.graph import EngineMode, RunOptions
from openipu.run.native.cut import cut_graph, order_updates, set_values
from openipu.run.native.graph_text import read_graph
from openipu.run.native.schedule import PartCall, Schedule
from openipu.store import open_store

aten = torch.ops.aten
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.wide, self.narrow = (
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.Linear(2 * width, width),
        )

    def forward(self, x):
        return x + nn.functional.dropout(self.narrow(nn.functional.gelu(self.wide(self.norm(x)))), 0.2)


class Tower(nn.Module):
    """Equal layers between a table of vectors and a classifier, whose weight is that of the table if it is `tied`."""

    def __init__(self, layers, width=8, tied=False):
        super().__init__()
        self.table = nn.Embedding(12, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.classify = nn.Linear(width, 12, bias=False)
        if tied:
            self.classify.weight = self.table.weight

    def forward(self, numbers, labels):
        hidden = self.table(numbers)
        for layer in self.layers:
            hidden = layer(hidden)
        return nn.functional.cross_entropy(self.classify(hidden), labels)


def make_data(count=4):
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randint(0, 12, (count,), generator=generator) for _ in range(2))


def start(start_training, model, engine=EngineMode.OPERATORS, max_grad_norm=None, **options):
    settings = RunOptions(training=True, engine=engine, random_seed=7, **options)
    leaves = make_data(4 * settings.micro_batches)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return start_training(model, optimizer, leaves, settings, max_grad_norm=max_grad_norm), leaves


def write_units(trained):
    return trained.executable._tiers._write_job().content["units"]


def make_values(placeholders):
    generator = torch.Generator().manual_seed(1)
    values = []
    for shape, name in placeholders:
        value = torch.rand(shape, generator=generator)
        values.append(value.to(getattr(torch, name)) if "float" in name else (12 * value).to(getattr(torch, name)))
    return values


def run_whole(unit, values):
    module = fx.GraphModule(nn.Module(), read_graph(unit["graph"]))
    return module(*values)


def run_cut(cut, values):
    modules = [fx.GraphModule(nn.Module(), read_graph(part["graph"])) for part in cut.parts]
    return cut.schedule.bind([lambda given, module=module: module(*given) for module in modules])(values)


def are_equal(found, expected):
    return all(torch.equal(*map(torch.nan_to_num, pair)) for pair in zip(found, expected, strict=True))


def compare(unit, part_nodes=20):
    cut = cut_graph(read_graph(unit["graph"]), unit["placeholders"], part_nodes)
    assert cut is not None
    expected, found = make_values(unit["placeholders"]), make_values(unit["placeholders"])
    before = [value.clone() for value in found]
    with torch.no_grad():
        results = run_whole(unit, expected)
        assert are_equal(run_cut(cut, found), results)
    assert are_equal(found, expected)
    assert not are_equal(found, before)  # weights and state are written
    return cut


@pytest.mark.parametrize("tied", [False, True], ids=["plain", "tied"])
def test_a_step_in_parts_equals_the_whole_one(start_training, tied):
    trained, _ = start(start_training, Tower(5, tied=tied))
    (unit,) = write_units(trained)
    cut = compare(unit)
    calls = [call.part for call in cut.schedule.calls]
    most = max(calls.count(part) for part in calls)
    assert most >= 4  # of the layers' forwards, and of their backwards with their updates
    assert len(cut.parts) < len(calls) - 6
    assert sum(calls.count(part) >= 4 for part in set(calls)) >= 2


def test_gradients_that_are_clipped_together_are_applied_after_all_layers(start_training):
    trained, _ = start(start_training, Tower(5), max_grad_norm=0.5)
    (unit,) = write_units(trained)
    compare(unit)


def test_accumulated_gradients_and_the_update_are_cut_by_themselves(start_training):
    trained, _ = start(start_training, Tower(5), gradient_accumulation=3, folding=False)
    units = write_units(trained)
    assert len(units) == 2
    for unit in units:
        compare(unit)


def test_layers_in_half_are_equal_too(start_training):
    trained, _ = start(start_training, Tower(5).half())
    (unit,) = write_units(trained)
    compare(unit)


def test_layers_that_differ_are_not_cut(start_training):
    model = Tower(0)
    model.layers = nn.Sequential(nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 8))
    trained, _ = start(start_training, model)
    (unit,) = write_units(trained)
    assert cut_graph(read_graph(unit["graph"]), unit["placeholders"]) is None


def build_graph(function, *shapes):
    """A graph by a function of its placeholders, which returns what it returns."""
    graph = fx.Graph()
    sources = [graph.placeholder(f"p{index}") for index in range(len(shapes))]
    graph.output(tuple(function(graph, *sources)))
    placeholders = [[list(shape), "float32"] for shape in shapes]
    set_values(graph, placeholders)
    return graph


def test_a_write_comes_after_everything_that_reads_what_was_there():
    def step(graph, weight, x):
        view = graph.call_function(aten.permute.default, (weight, [1, 0]))
        gradient = graph.call_function(aten.mul.Tensor, (weight, 2.0))
        first = graph.call_function(aten.mm.default, (x, weight))
        second = graph.call_function(aten.mm.default, (first, view))
        third = graph.call_function(aten.add.Tensor, (second, 1.0))
        new = graph.call_function(aten.sub.Tensor, (weight, gradient))
        graph.call_function(aten.copy_.default, (weight, new))
        return [third]

    graph = build_graph(step, (3, 3), (3, 3))
    order = [node.target for node in order_updates(graph)]
    assert order.index(aten.copy_.default) == len(order) - 2  # behind the last product, before what needs no weight
    assert order.index(aten.mul.Tensor) > order.index(aten.mm.default)  # no earlier than it has to be


def test_what_draws_from_a_generator_is_drawn_once_and_in_order():
    def step(graph, x):
        for _ in range(4):
            noise = graph.call_function(aten.randn_like.default, (x,))
            noisy = graph.call_function(aten.add.Tensor, (x, noise))
            x = graph.call_function(aten.mul.Tensor, (noisy, noise))
        return [x]

    graph = build_graph(step, (4, 4))
    cut = cut_graph(graph, [[[4, 4], "float32"]], part_nodes=1)
    assert cut is not None
    assert len(cut.parts) < len(cut.schedule.calls)
    given = torch.ones(4, 4)
    torch.manual_seed(0)
    (expected,) = fx.GraphModule(nn.Module(), graph)(given)
    torch.manual_seed(0)
    (found,) = run_cut(cut, [given])
    assert torch.equal(found, expected)


def test_strides_that_somebody_reads_forbid_a_cut():
    def step(graph, x):
        for _ in range(4):
            turned = graph.call_function(aten.permute.default, (x, [1, 0]))
            strided = graph.call_function(aten.as_strided.default, (turned, [4, 4], [1, 4]))
            x = graph.call_function(aten.mul.Tensor, (strided, 2.0))
        return [x]

    graph = build_graph(step, (4, 4))
    assert cut_graph(graph, [[[4, 4], "float32"]], part_nodes=1) is None


def test_a_value_is_let_go_after_its_last_reader():
    schedule = Schedule.plan([PartCall(0, [0], [1, 2]), PartCall(1, [1, 0], [3]), PartCall(0, [3], [4, 5])], 1, [5])
    assert [call.freed for call in schedule.calls] == [[2], [1], [3, 4]]
    assert Schedule.parse(schedule.write()) == schedule


@pytest.mark.parametrize("damage", [b'"values":3', b'"values":-1', b'"values":"6"'])
def test_a_schedule_that_was_damaged_is_refused(damage):
    text = Schedule.plan([PartCall(0, [0], [1, 2]), PartCall(1, [1, 2], [3])], 1, [3]).write()
    with pytest.raises(ArchiveError, match="schedule of a compiled program"):
        Schedule.parse(text.replace(b'"values":4', damage))


def count_parts():
    return sum(str(entry.description.get("program")).startswith("part of") for entry in open_store().list())


@needs_compiler
@pytest.mark.slow
def test_a_compiled_step_in_parts_equals_the_instant_one_and_deeper_models_find_its_layers(
    start_training, monkeypatch, tmp_path
):
    monkeypatch.setenv("OPENIPU_CACHE_DIR", str(tmp_path))

    def train(layers, engine):
        torch.manual_seed(0)
        trained, leaves = start(start_training, Tower(layers), engine)
        losses = torch.stack([trained.executable.run(leaves).outputs[0] for _ in range(3)])
        assert trained.executable.engine_mode is engine
        return trained.read_weights(), losses

    made = []
    for layers in (30, 33):
        weights, losses = train(layers, EngineMode.KERNELS)
        expected_weights, expected = train(layers, EngineMode.OPERATORS)
        torch.testing.assert_close(losses, expected, atol=1e-4, rtol=1e-4)
        for name, value in weights.items():
            torch.testing.assert_close(value, expected_weights[name], atol=1e-4, rtol=1e-4)
        made.append(count_parts())
    assert made[0] > 2
    assert made[1] - made[0] < made[0] - 1  # layers are found, whatever else differs


@pytest.mark.slow
def test_what_one_of_several_compiling_processes_complains_about_is_told(tmp_path):
    script = (
        "from openipu.run.native.inductor import compile_graphs; "
        "broken = {'graph': [['no_such_operator.default', [], {}]], 'placeholders': [], 'options': {}}; "
        "compile_graphs([broken, broken], processes=2)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "RuntimeError: ArchiveError" in ended.stderr
    assert "no_such_operator" in ended.stderr.strip().splitlines()[-1]
