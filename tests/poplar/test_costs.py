"""Costs: published figures of the matrix-vector tutorial, and small programs whose cycles can be added up by hand."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matrix_vector import build, estimate, make_model

import poplar
import poplin
import poputil
import pva
from openipu.graph import RunOptions
from openipu.report import read_profile
from openipu.session import plan_model
from poplar import BOOL, FLOAT, InOut, Input, Output, Vector, Vertex
from poplar.execution.profile import average_cycles
from poplar.program import Copy, Execute, If, Repeat, RepeatWhileTrue, Sequence


class Sum(Vertex):
    in_: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out.value = self.in_.sum()
        return True


class Down(Vertex):
    number: InOut[FLOAT]
    more: Output[BOOL]

    def compute(self):
        self.number.value -= 1
        self.more.value = self.number.value > 0
        return True


@pytest.mark.parametrize(("version", "worst"), [("ipu1", 64373), ("ipu2", 53807)])
def test_the_worst_split_costs_what_the_tutorial_says(version, worst):
    target = make_model(version).getTarget()
    assert max(sum(estimate(target, 10000, 1000, split)) for split in range(1, 1000)) == worst


def test_the_best_split_costs_what_the_tutorial_says():
    target = make_model().getTarget()
    costs = {split: estimate(target, 10000, 1000, split) for split in range(1, 1000)}
    best = min(costs, key=lambda split: sum(costs[split]))
    assert best == 7
    assert costs[7] == (3696, 143, 49, 108)
    assert sum(costs[7]) == 3996


def test_the_profile_of_the_tutorial_comes_out_within_half_a_per_cent():
    device = make_model()
    graph = poplar.Graph(device)
    engine = poplar.Engine(graph, build(graph, 10000, 1000, 7))
    plan = engine.getPlan()
    means = average_cycles(plan)
    published = {"compute": 3801.8, "compute busy": 3717.6, "host exchange": 6663550.8}
    for name, cycles in published.items():
        assert means[name] == pytest.approx(cycles, rel=0.005), name
    assert plan.timing.call_cycles == pytest.approx(6681766, rel=0.005)
    assert plan.timing.clock_hz == 1.33e9
    exchanged = [step for step in plan.steps if step.kind.value == "exchange"]
    assert max(exchanged[1].by_tile.cycles) == 49  # seven partial sums for each of seven rows, one word a cycle


def variable(graph, shape, name, tile):
    made = graph.addVariable(FLOAT, shape, name)
    graph.setTileMapping(made, tile)
    return made


def test_workers_take_turns_and_the_slowest_counts(graph):
    graph.addCodelets(Sum)
    compute_set = graph.addComputeSet("sums")
    for cycles in (10, 20, 30, 40, 50, 60, 70):  # the seventh goes to the first worker again
        vertex = graph.addVertex(
            compute_set,
            "Sum",
            {"in": variable(graph, [2], f"in{cycles}", 0), "out": variable(graph, [], f"out{cycles}", 0)},
        )
        graph.setTileMapping(vertex, 0)
        graph.setPerfEstimate(vertex, cycles)
    plan = poplar.Engine(graph, Execute(compute_set)).getPlan()
    (step,) = plan.steps
    assert step.cycles == 6 * (10 + 70)
    assert step.by_tile.cycles[0] == 480
    assert step.by_tile.busy_cycles[0] == 280
    assert step.by_tile.vertices[0] == 7
    assert plan.ops[0].provenance.value == "user"


def test_an_exchange_counts_what_each_tile_needs_once(graph):
    """Two vertices on tile 1 read the same 8 floats of tile 0; a vertex on tile 2 reads 4 of them, and writes to 3."""
    graph.addCodelets(Sum)
    source = variable(graph, [8], "source", 0)
    compute_set = graph.addComputeSet("sums")
    for name, tile, part, home in (("a", 1, source, 1), ("b", 1, source, 1), ("c", 2, source[2:6], 3)):
        vertex = graph.addVertex(compute_set, "Sum", {"in": part, "out": variable(graph, [], name, home)})
        graph.setTileMapping(vertex, tile)
        graph.setPerfEstimate(vertex, 12)
    plan = poplar.Engine(graph, Execute(compute_set)).getPlan()
    kinds = [step.kind.value for step in plan.steps]
    assert kinds == ["sync", "exchange", "compute", "sync", "exchange"]
    into, out = plan.steps[1], plan.steps[4]
    assert into.by_tile.cycles[:4].tolist() == [8, 8, 4, 0]  # 32 bytes sent once, 32 and 16 received, 4 a cycle
    assert into.moved_bytes == 32 + 16
    assert out.by_tile.cycles[:4].tolist() == [0, 0, 1, 1]
    buffers = [entry for entry in plan.variables if entry.name.endswith("inputs")]
    assert [entry.mapping.bytes_by_tile(8)[:4].tolist() for entry in buffers] == [[0, 32, 16, 0]]


def test_a_vertex_without_an_estimate_is_counted_and_marked_as_a_guess(graph):
    graph.addCodelets(Sum)
    compute_set = graph.addComputeSet("sums")
    vertex = graph.addVertex(
        compute_set, "Sum", {"in": variable(graph, [8], "in", 0), "out": variable(graph, [], "out", 0)}
    )
    graph.setTileMapping(vertex, 0)
    plan = poplar.Engine(graph, Execute(compute_set)).getPlan()
    assert plan.steps[0].cycles == 6 * (20 + 4 + 1 + 4)  # start, 32 bytes loaded, 4 stored, 32 calculated with
    assert plan.ops[0].provenance.value == "guessed"
    assert plan.guessed_ops == {"Sum": 1}
    assert plan.timing.guessed_cycles == plan.timing.call_cycles


def test_copies_cost_what_travels_and_what_stays(graph):
    a, b = variable(graph, [16], "a", 0), graph.addVariable(FLOAT, [16], "b")
    graph.setTileMapping(b[:8], 0)
    graph.setTileMapping(b[8:], 1)
    plan = poplar.Engine(graph, Copy(a, b)).getPlan()
    assert [step.kind.value for step in plan.steps] == ["sync", "exchange", "compute"]
    assert plan.steps[1].cycles == 8  # 32 bytes, 4 a cycle
    assert plan.steps[2].cycles == 20 + 4  # a start, and 32 bytes of 8 a cycle


def test_streams_cost_bytes_at_the_models_rate(graph):
    tensor = variable(graph, [1000], "t", 0)
    plan = poplar.Engine(graph, Copy(graph.addHostToDeviceFIFO("in", FLOAT, 1000), tensor)).getPlan()
    assert plan.timing.host_cycles == pytest.approx(4000 / 8e9 * 1.33e9)


def test_repeats_are_multiplied_and_loops_that_data_end_are_counted_while_they_run(graph, device):
    graph.addCodelets(Down)
    number = variable(graph, [], "number", 0)
    more = graph.addVariable(BOOL, [], "more")
    graph.setTileMapping(more, 0)
    graph.createHostWrite("number", number)
    compute_set = graph.addComputeSet("down")
    vertex = graph.addVertex(compute_set, "Down", {"number": number, "more": more})
    graph.setTileMapping(vertex, 0)
    graph.setPerfEstimate(vertex, 10)
    repeated = poplar.Engine(graph, Repeat(7, Execute(compute_set))).getPlan()
    assert repeated.timing.call_cycles == 7 * 60
    engine = poplar.Engine(graph, RepeatWhileTrue(Execute(compute_set), more, Sequence()))
    assert engine.getPlan().timing.call_cycles == 60
    engine.load(device)
    engine.writeTensor("number", np.float32(5))
    engine.run()
    assert engine.getPlan().timing.call_cycles == 5 * 60
    engine.resetExecutionProfile()
    engine.writeTensor("number", np.float32(2))
    engine.run()
    assert engine.getPlan().timing.call_cycles == 2 * 60


def test_a_branch_that_was_not_taken_costs_nothing(graph, device):
    flag = graph.addConstant(BOOL, [], False)
    graph.setTileMapping(flag, 0)
    a, b = variable(graph, [4], "a", 0), variable(graph, [4], "b", 1)
    engine = poplar.Engine(graph, If(flag, Copy(a, b), Sequence()))
    assert engine.getPlan().timing.call_cycles > 0
    engine.loadAndRun(device)
    assert engine.getPlan().timing.call_cycles == 0


def test_a_product_costs_the_same_as_from_pytorch():
    import torch

    device = poplar.DeviceManager().getDevices(poplar.TargetType.IPU, 1)[0]
    graph = poplar.Graph(device)
    a, b = (graph.addVariable(FLOAT, shape, name) for name, shape in (("a", [900, 600]), ("b", [600, 300])))
    for tensor in (a, b):
        poputil.mapTensorLinearly(graph, tensor)
    program = Sequence()
    poplin.matMul(graph, a, b, program)
    ours = next(op for op in poplar.Engine(graph, program).getPlan().ops if op.op == "aten.mm.default")

    class Product(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(600, 300))

        def forward(self, x):
            return torch.mm(x, self.weight)

    system = graph.getTarget().system
    _, plan = plan_model(Product(), (torch.zeros(900, 600),), options=RunOptions(), system=system)
    theirs = next(op for op in plan.ops if op.op == "aten.mm.default")
    assert ours.cycles == theirs.cycles
    assert ours.flops == theirs.flops == 2 * 900 * 600 * 300


class TestLiveness:
    def test_a_temporary_lives_from_its_first_write_to_its_last_read(self, graph):
        a, b, c = (variable(graph, [4], name, place) for place, name in enumerate("abc"))
        graph.createHostWrite("a", a)
        graph.createHostRead("c", c)
        plan = poplar.Engine(graph, Sequence(Copy(a, b), Copy(b, c))).getPlan()
        lives = {entry.name: (entry.always_live, entry.first_step, entry.last_step) for entry in plan.variables}
        assert lives["a"][0]
        assert lives["c"][0]
        assert lives["b"] == (False, 0, 3)  # two steps each: sync and exchange

    def test_what_is_read_before_it_is_written_lives_always(self, graph):
        a, b = variable(graph, [4], "a", 0), variable(graph, [4], "b", 1)
        plan = poplar.Engine(graph, Copy(a, b)).getPlan()
        assert {entry.name: entry.always_live for entry in plan.variables} == {"a": True, "b": False}

    def test_what_a_loop_reads_again_lives_as_long_as_the_loop(self, graph):
        a, b, c, d = (variable(graph, [4], name, place) for place, name in enumerate("abcd"))
        graph.createHostWrite("a", a)
        plan = poplar.Engine(graph, Sequence(Copy(a, b), Repeat(3, Sequence(Copy(b, c), Copy(c, d))))).getPlan()
        lives = {entry.name: (entry.first_step, entry.last_step) for entry in plan.variables if not entry.always_live}
        assert lives["b"] == (0, 5)
        assert lives["c"] == (2, 5)


def test_a_tile_that_is_too_full_stops_hardware_and_not_a_model(tmp_path):
    def build_full(device):
        graph = poplar.Graph(device)
        big = graph.addVariable(FLOAT, [200_000], "big")
        graph.setTileMapping(big, 3)
        graph.createHostWrite("big", big)
        return graph

    model = poplar.IPUModel().createDevice()
    graph = build_full(model)
    assert not poplar.Engine(graph, Sequence()).getPlan().fits()
    hardware = poplar.DeviceManager().getDevices(poplar.TargetType.IPU, 1)[0]
    graph = build_full(hardware)
    message = r"Out of memory.*Tile 3 needs .*big with 800,000 B \(.*test_costs\.py:\d+ in build_full\)"
    with pytest.raises(poplar.graph_memory_allocation_error, match=message):
        poplar.Engine(graph, Sequence())
    options = {"debug.allowOutOfMemory": "true", "autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    poplar.Engine(graph, Sequence(), options)
    assert not read_profile(tmp_path).fit.fits


def test_the_profile_of_a_program_can_be_written_and_read_by_pva(graph, device, tmp_path):
    graph.addCodelets(Sum)
    source = variable(graph, [8], "source", 0)
    compute_set = graph.addComputeSet("sums")
    for tile in range(4):
        vertex = graph.addVertex(compute_set, "Sum", {"in": source, "out": variable(graph, [], f"out{tile}", tile)})
        graph.setTileMapping(vertex, tile)
        graph.setPerfEstimate(vertex, 10 + tile)
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    engine = poplar.Engine(graph, Repeat(3, Execute(compute_set), "again"), options)
    engine.loadAndRun(device)
    report = pva.openReport(tmp_path / "profile.pop")
    assert report.compilation.target.tilesPerIpu == 8
    (own,) = report.compilation.computeSets
    assert own.cyclesByTile[:5].tolist() == [60, 66, 72, 78, 0]
    assert own.vertices[0].countByTile[:5].tolist() == [1, 1, 1, 1, 0]
    root = report.compilation.programs[0]
    (program,) = root.children
    (repeat,) = program.children
    assert (repeat.type.value, repeat.count, repeat.name) == ("Repeat", 3, "again")
    live = [tile.memory.notAlwaysLiveBytes for tile in report.compilation.tiles]
    assert live[:5] == [4, 36, 36, 36, 0]  # a result each, and a copy of the source where it is not at home
    source_record = next(one for one in read_profile(tmp_path).variables if one.name == "source")
    assert source_record.bytes_by_tile(8).tolist() == [32, 0, 0, 0, 0, 0, 0, 0]
    assert report.execution.totalCycles == round(engine.getPlan().timing.call_cycles)
    assert engine.getReport().execution.totalCycles == report.execution.totalCycles


def test_the_summary_has_the_headings_that_scripts_look_for(graph):
    tensor = variable(graph, [1000], "t", 0)
    engine = poplar.Engine(graph, Copy(graph.addHostToDeviceFIFO("in", FLOAT, 1000), tensor))
    engine.printProfileSummary(text := io.StringIO(), {"showExecutionSteps": "true"})
    for heading in ("Target:", "Graph:", "Memory Usage:", "Execution:", "Total cycles:", "Execution steps:"):
        assert heading in text.getvalue()
    for kind in ("compute cycles (including idle threads)", "compute cycles (excluding idle threads)", "IPU exchange"):
        assert f"Tile average {kind}" in text.getvalue()
    for kind in ("global exchange", "host exchange", "sync"):
        assert f"Tile average {kind} cycles:" in text.getvalue()
