"""What vertices return as a value, cycles that a program reads, and estimators of the user's."""

from __future__ import annotations

import numpy as np
import pytest

import poplar
from poplar import BOOL, FLOAT, INT, UNSIGNED_INT, InOut, Input, Vector, VectorList, Vertex
from poplar.program import Execute, If, Repeat, RepeatWhileTrue, Sequence, Sync

WORKERS = 6


class Positive(Vertex):
    """Counts itself down, and says whether there is something left."""

    x: InOut[FLOAT]

    def compute(self):
        self.x.value -= 1
        return bool(self.x.value > 0)


class AllPositive(Vertex):
    x: InOut[FLOAT]

    @staticmethod
    def computeAll(fields):
        fields["x"] -= 1
        return fields["x"] > 0


SOURCE = """
#include <poplar/Vertex.hpp>
using namespace poplar;
class NativePositive : public Vertex {
public:
  InOut<float> x;
  bool compute() { *x -= 1; return *x > 0; }
};
"""


def add(graph, codelet, values, cycles=10):
    numbers = graph.addVariable(FLOAT, [len(values)], "numbers")
    compute_set = graph.addComputeSet("count down")
    for place in range(len(values)):
        vertex = graph.addVertex(compute_set, codelet, {"x": numbers[place]})
        graph.setTileMapping(numbers[place], place)
        graph.setTileMapping(vertex, place)
        if cycles:
            graph.setPerfEstimate(vertex, cycles)
    graph.createHostWrite("numbers", numbers)
    graph.createHostRead("numbers", numbers)
    return numbers, compute_set


def add_value(graph, element, name, shape=()):
    made = graph.addVariable(element, list(shape), name)
    graph.setTileMapping(made, 0)
    graph.createHostRead(name, made)
    return made


def start(graph, device, program, values):
    engine = poplar.Engine(graph, program)
    engine.load(device)
    engine.writeTensor("numbers", np.array(values, np.float32))
    return engine


def read_cycles(engine, name="cycles"):
    low, high = engine.readTensor(name).tolist()
    return low + (high << 32)


@pytest.mark.parametrize("codelet", [Positive, AllPositive, "NativePositive"])
@pytest.mark.parametrize(("values", "all_true"), [([3, 3, 3], True), ([3, 1, 3], False), ([1, 1, 1], False)])
def test_the_exit_value_says_whether_all_vertices_returned_true_and_all_of_them_ran(
    graph, device, codelet, values, all_true, tmp_path
):
    if isinstance(codelet, str):
        (tmp_path / "positive.cpp").write_text(SOURCE)
        graph.addCodelets(str(tmp_path / "positive.cpp"))
    _, compute_set = add(graph, codelet, values)
    good = add_value(graph, BOOL, "good")
    engine = start(graph, device, Execute(compute_set, good), values)
    engine.run()
    assert bool(engine.readTensor("good")) is all_true
    assert engine.readTensor("numbers").tolist() == [value - 1 for value in values]


def test_without_an_exit_value_false_is_an_error(graph, device):
    _, compute_set = add(graph, Positive, [1, 3])
    engine = start(graph, device, Execute(compute_set), [1, 3])
    with pytest.raises(poplar.application_runtime_error, match=r"compute\(\) returned False"):
        engine.run()


def test_a_loop_ends_when_a_vertex_says_so(graph, device):
    _, compute_set = add(graph, Positive, [4, 9])
    good = add_value(graph, INT, "good")
    engine = start(graph, device, RepeatWhileTrue(Execute(compute_set, good), good, Sequence()), [4, 9])
    engine.run()
    assert engine.readTensor("numbers").tolist() == [0, 5]


def test_a_compute_set_runs_with_and_without_an_exit_value_and_survives_a_file(graph, device, tmp_path):
    _, compute_set = add(graph, Positive, [5])
    good = add_value(graph, BOOL, "good")
    poplar.compileGraph(graph, Sequence(Execute(compute_set, good), Execute(compute_set))).serialize(tmp_path / "e")
    engine = poplar.Engine(poplar.Executable.deserialize(tmp_path / "e", codelets=[Positive]))
    engine.load(device)
    engine.writeTensor("numbers", np.array([5], np.float32))
    engine.run()
    assert engine.readTensor("numbers").tolist() == [3]
    assert bool(engine.readTensor("good"))


@pytest.mark.parametrize(("element", "shape"), [(FLOAT, ()), (BOOL, (2,))])
def test_an_exit_value_is_one_whole_number(graph, element, shape):
    _, compute_set = add(graph, Positive, [1])
    with pytest.raises(poplar.control_program_error, match="the exit value must be one BOOL or integer"):
        Execute(compute_set, graph.addVariable(element, list(shape)))


def test_a_constant_takes_no_exit_value(graph):
    _, compute_set = add(graph, Positive, [1])
    with pytest.raises(poplar.control_program_error, match="is a constant"):
        Execute(compute_set, graph.addConstant(BOOL, [], True))


def test_a_counted_sequence_costs_what_its_plan_says(graph, device):
    values = [9.0, 9.0]
    _, compute_set = add(graph, Positive, values, cycles=10)
    body = Sequence(Repeat(3, Execute(compute_set)))
    cycles = poplar.cycleCount(graph, body, 0, poplar.SyncType.INTERNAL, "cycles")
    graph.createHostRead("cycles", cycles)
    assert cycles.elementType() is UNSIGNED_INT
    assert cycles.shape() == [2]
    engine = start(graph, device, Sequence(Execute(compute_set), body), values)
    engine.run()
    assert read_cycles(engine) == 3 * WORKERS * 10  # a worker issues every sixth cycle; data are where they are used


def test_the_clock_counts_what_really_ran(graph, device):
    values = [7.0]
    _, compute_set = add(graph, Positive, values, cycles=10)
    good = add_value(graph, BOOL, "good")
    body = Sequence(RepeatWhileTrue(Execute(compute_set, good), good, Sequence()))
    graph.createHostRead("cycles", poplar.cycleCount(graph, body, 0))
    engine = start(graph, device, body, values)
    engine.run()
    assert read_cycles(engine) == 7 * WORKERS * 10
    engine.writeTensor("numbers", np.array([2], np.float32))
    engine.run()
    assert read_cycles(engine) == 2 * WORKERS * 10  # since the stamp of this run


def test_a_branch_that_is_not_taken_costs_nothing(graph, device):
    _, compute_set = add(graph, Positive, [9.0], cycles=10)
    flag = add_value(graph, BOOL, "flag")
    graph.createHostWrite("flag in", flag)
    body = Sequence(If(flag, Execute(compute_set), Sequence()))
    graph.createHostRead("cycles", poplar.cycleCount(graph, body, 0))
    engine = start(graph, device, body, [9.0])
    for taken in (False, True):
        engine.writeTensor("flag in", np.array(taken))
        engine.run()
        assert read_cycles(engine) == (WORKERS * 10 if taken else 0)


def test_a_stamp_counts_from_the_load_on_on_each_tile_that_is_named(graph, device):
    _, compute_set = add(graph, Positive, [9.0], cycles=10)
    program = Sequence(Execute(compute_set))
    stamps = poplar.cycleStamp(graph, program, [0, 3])
    for tile, stamp in zip((0, 3), stamps, strict=True):
        graph.createHostRead(f"stamp {tile}", stamp)
        assert [place for place, held in enumerate(graph.getTileMapping(stamp)) if held] == [tile]
    engine = start(graph, device, program, [9.0])
    sync = poplar.Engine(graph, Sync()).getPlan().timing.call_cycles
    for runs in (1, 2):
        engine.run()
        for tile in (0, 3):
            assert read_cycles(engine, f"stamp {tile}") == round(runs * (WORKERS * 10 + sync))


class Weighted(Vertex):
    a: Input[Vector[FLOAT]]
    rows: Input[VectorList[FLOAT]]
    x: InOut[FLOAT]
    factor: int

    def compute(self):
        return True


def build_weighted(graph, factors):
    data = graph.addVariable(FLOAT, [6], "data")
    graph.setTileMapping(data, 0)
    numbers, compute_set = graph.addVariable(FLOAT, [len(factors)], "numbers"), graph.addComputeSet("weighted")
    vertices = []
    for place, factor in enumerate(factors):
        tensors = {"a": data.slice(0, 4), "rows": [data.slice(0, 2), data.slice(2, 5)], "x": numbers[place]}
        vertex = graph.addVertex(compute_set, Weighted, tensors)
        graph.setInitialValue(vertex["factor"], factor)
        graph.setTileMapping(numbers[place], 0)
        graph.setTileMapping(vertex, 0)
        vertices.append(vertex)
    return vertices, Execute(compute_set)


def find_cycles(engine):
    (batch,) = engine._program.compute_sets[0].batches
    return batch.cycles.tolist()


def test_an_estimator_sees_sizes_and_states_and_is_asked_once_for_equal_vertices(graph):
    seen = []

    def estimate(vertex, target):
        seen.append(vertex.name)
        rows = vertex.getFieldInfo("rows")
        assert (rows.size(), rows.getSizeAtIndex(1), rows.rank()) == (2, 3, 2)
        assert target.getNumWorkerContexts() == WORKERS
        return vertex.getFieldInfo("factor").getInitialValue(target) * vertex.getFieldInfo("a").size()

    graph.registerPerfEstimator("Weighted", estimate)
    vertices, program = build_weighted(graph, [2, 5, 2, 2])
    graph.setPerfEstimate(vertices[3], 99)
    engine = poplar.Engine(graph, program)
    assert find_cycles(engine) == [8, 20, 8, 99]  # what was said of a vertex itself goes first
    assert len(seen) == 2
    # all on one tile, one vertex to a worker
    assert engine.getPlan().timing.call_cycles == WORKERS * 99


def test_an_estimator_says_flops_too(graph):
    graph.registerPerfEstimator("Weighted", lambda vertex, target: poplar.VertexPerfEstimate(10, 4))
    _, program = build_weighted(graph, [1, 2])
    assert poplar.Engine(graph, program).getPlan().ops[0].flops == 8


@pytest.mark.parametrize("answer", [None, "many", -1, (1, 2, 3), 1.5])
def test_an_estimator_that_says_no_number_is_refused(graph, answer):
    graph.registerPerfEstimator("Weighted", lambda vertex, target: answer)
    _, program = build_weighted(graph, [1])
    with pytest.raises(poplar.type_error, match="The perf estimator of Weighted returned"):
        poplar.Engine(graph, program)


def test_an_estimator_that_asks_for_what_is_not_there_hears_so(graph):
    graph.registerPerfEstimator("Weighted", lambda vertex, target: vertex.getFieldInfo("b").size())
    _, program = build_weighted(graph, [1])
    with pytest.raises(poplar.unknown_field, match="has no field 'b'"):
        poplar.Engine(graph, program)
    with pytest.raises(poplar.type_error, match="cannot be called"):
        graph.registerPerfEstimator("Weighted", 3)
