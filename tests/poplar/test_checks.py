"""What the original did not tell: races, missing tiles, memory that was never written; and wrong graphs."""

from __future__ import annotations

import numpy as np
import pytest

import poplar
from poplar import FLOAT, HALF, INT, InOut, Input, MultiVertex, Output, Vector, VectorList, Vertex
from poplar.program import Copy, Execute, Sequence, WriteUndef


class Move(Vertex):
    in_: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out[:] = self.in_
        return True


class Several(Vertex):
    parts: Input[VectorList[FLOAT]]
    factor: float
    out: Output[FLOAT]

    def compute(self):
        self.out.value = self.factor * sum(part.sum() for part in self.parts)
        return True


class Shared(MultiVertex):
    values: InOut[Vector[FLOAT]]

    def compute(self, workerId=0):
        self.values[workerId :: self.numWorkers()] += workerId
        return True


def variable(graph, shape, name, tile=0):
    made = graph.addVariable(FLOAT, shape, name)
    graph.setTileMapping(made, tile)
    graph.createHostRead(name, made)
    return made


def add(graph, compute_set, codelet, fields, tile=0):
    vertex = graph.addVertex(compute_set, codelet, fields)
    graph.setTileMapping(vertex, tile)
    return vertex


class TestRaces:
    def test_two_vertices_that_write_one_element_are_named_with_their_lines(self, graph):
        source, target = variable(graph, [4], "source"), variable(graph, [2, 4], "target")
        compute_set = graph.addComputeSet("clash")
        add(graph, compute_set, Move, {"in": source, "out": target[1]})
        add(graph, compute_set, Move, {"in": source[:2], "out": target.flatten()[6:8]})
        message = (
            r"Compute set 'clash': target\[1\]\[2\] is written by two vertices, vertex 0 \(Move, added at .*"
            r"test_checks\.py:\d+ in add\) and vertex 1 \(Move, added at .*test_checks\.py"
        )
        with pytest.raises(poplar.graph_connection_error, match=message):
            poplar.Engine(graph, Execute(compute_set))
        poplar.Engine(graph, Execute(compute_set), {"debug.checkRaces": "false"})

    def test_a_vertex_that_reads_what_another_writes_is_named(self, graph):
        a, b, c = (variable(graph, [4], name) for name in "abc")
        compute_set = graph.addComputeSet("chain")
        add(graph, compute_set, Move, {"in": a, "out": b})
        add(graph, compute_set, Move, {"in": b.reverse(0), "out": c})
        with pytest.raises(poplar.graph_connection_error, match=r"b\[\d\] is read by vertex 1 .* written by vertex 0"):
            poplar.Engine(graph, Execute(compute_set))

    def test_with_the_check_off_everything_is_read_before_anything_is_written(self, graph, device):
        a, b, c = (variable(graph, [4], name) for name in "abc")
        graph.createHostWrite("a", a)
        compute_set = graph.addComputeSet("chain")
        add(graph, compute_set, Move, {"in": a, "out": b})
        add(graph, compute_set, Move, {"in": b, "out": c})
        engine = poplar.Engine(graph, Execute(compute_set), {"debug.checkRaces": "false"})
        engine.load(device)
        engine.writeTensor("a", np.arange(4, dtype=np.float32))
        engine.run()
        assert engine.readTensor("b").tolist() == [0, 1, 2, 3]
        assert engine.readTensor("c").tolist() == [0, 0, 0, 0]
        engine.run()
        assert engine.readTensor("c").tolist() == [0, 1, 2, 3]

    def test_neighbours_and_other_compute_sets_do_not_clash(self, graph, run):
        a, b = variable(graph, [4], "a"), variable(graph, [4], "b")
        first, second = graph.addComputeSet("one"), graph.addComputeSet("two")
        add(graph, first, Move, {"in": a[:2], "out": b[:2]})
        add(graph, first, Move, {"in": a[:2], "out": b[2:]})
        add(graph, second, Move, {"in": b, "out": a})
        run(graph, Sequence(Execute(first), Execute(second)))


class TestTiles:
    def test_an_element_without_a_tile_is_named_with_the_line_of_its_variable(self, graph):
        tensor = graph.addVariable(FLOAT, [2, 3], "partly")
        graph.setTileMapping(tensor[0], 0)
        with pytest.raises(poplar.invalid_tile_mapping, match=r"partly\[1\]\[0\] has no tile: .*test_checks\.py:\d+"):
            poplar.Engine(graph, Sequence())

    def test_a_vertex_without_a_tile_is_named(self, graph):
        a, b = variable(graph, [1], "a"), variable(graph, [1], "b")
        compute_set = graph.addComputeSet("nowhere")
        graph.addVertex(compute_set, Move, {"in": a, "out": b})
        with pytest.raises(poplar.invalid_tile_mapping, match=r"Vertex 0 of compute set 'nowhere'.*has no tile"):
            poplar.Engine(graph, Execute(compute_set))

    def test_the_hosts_processor_needs_no_tiles(self):
        device = poplar.Device.createCPUDevice()
        graph = poplar.Graph(device)
        a, b = (graph.addVariable(FLOAT, [2], name) for name in "ab")
        graph.createHostRead("b", b)
        compute_set = graph.addComputeSet()
        graph.addVertex(compute_set, Move, {"in": a, "out": b})
        engine = poplar.Engine(graph, Execute(compute_set))
        engine.loadAndRun(device)
        assert engine.readTensor("b").tolist() == [0, 0]

    def test_a_tile_that_is_not_there_is_refused_at_once(self, graph):
        tensor = graph.addVariable(FLOAT, [2], "t")
        with pytest.raises(poplar.invalid_tile_mapping, match=r"Tile 8 does not exist.*0 to 7"):
            graph.setTileMapping(tensor, 8)
        with pytest.raises(poplar.invalid_tile_mapping, match="outside of the 2 elements"):
            graph.setTileMapping(tensor, [[poplar.Interval(0, 3)]])

    def test_a_virtual_graph_has_tiles_of_its_own(self, graph):
        part = graph.createVirtualGraph(2, 5)
        tensor = part.addVariable(FLOAT, [4], "t")
        part.setTileMapping(tensor, 1)
        assert part.getTarget().getNumTiles() == 3
        assert [len(one) for one in graph.getTileMapping(tensor)] == [0, 0, 0, 1, 0, 0, 0, 0]
        assert [len(one) for one in part.getTileMapping(tensor)] == [0, 1, 0]
        copy = graph.clone(tensor)
        assert graph.getTileMapping(copy) == graph.getTileMapping(tensor)

    def test_later_mappings_replace_earlier_ones(self, graph):
        tensor = graph.addVariable(FLOAT, [6], "t")
        graph.setTileMapping(tensor, 1)
        graph.setTileMapping(tensor[2:4], 2)
        graph.setTileMapping(tensor.subSample(2, 0), 3)
        tiles = graph._store.tile_map(4).find(tensor.addresses())
        assert tiles.tolist() == [3, 1, 3, 2, 3, 1]


WATCHED = {"debug.checkUninitialised": "true"}


class TestNeverWritten:
    def test_reading_it_is_refused_on_demand(self, graph, run, device):
        a, b = variable(graph, [4], "a"), variable(graph, [4], "b")
        run(graph, Copy(a, b))
        with pytest.raises(poplar.application_runtime_error, match=r"Copy a to b reads a\[0\] and 3 more elements"):
            run(graph, Copy(a, b), WATCHED)

    def test_a_vertex_that_reads_it_is_named(self, graph, run):
        a, b = variable(graph, [4], "a"), variable(graph, [4], "b")
        graph.createHostWrite("a", a[:3])
        compute_set = graph.addComputeSet("moves")
        add(graph, compute_set, Move, {"in": a, "out": b})
        with pytest.raises(poplar.application_runtime_error, match=r"Field in of Move in moves reads a\[0\]"):
            run(graph, Execute(compute_set), WATCHED)

    def test_what_was_written_can_be_read_until_it_is_undefined(self, graph, run, device):
        a, b = variable(graph, [4], "a"), variable(graph, [4], "b")
        zero = graph.addConstant(FLOAT, [4], 0.0)
        graph.setTileMapping(zero, 0)
        run(graph, Sequence(Copy(zero, a), Copy(a, b)), WATCHED)
        with pytest.raises(poplar.application_runtime_error, match=r"reads a\[0\]"):
            run(graph, Sequence(Copy(zero, a), WriteUndef(a), Copy(a, b)), WATCHED)


class TestFields:
    def test_a_list_of_vectors_may_have_vectors_of_different_lengths(self, graph, run):
        a = variable(graph, [6], "a")
        graph.createHostWrite("a", a)
        results = variable(graph, [2], "results")
        compute_set = graph.addComputeSet()
        one = add(graph, compute_set, Several, {"parts": [a[:1], a[2:5]], "out": results[0]})
        two = add(graph, compute_set, Several, {"parts": a.reshape([2, 3]), "out": results[1]})
        graph.setInitialValue(one["factor"], 2.0)
        graph.setInitialValue(two["factor"], 1.0)
        engine = run(graph, Execute(compute_set))
        engine.writeTensor("a", np.arange(6, dtype=np.float32))
        engine.run()
        assert engine.readTensor("results").tolist() == [2 * (0 + 2 + 3 + 4), 15]

    def test_entries_of_a_field_can_be_connected_one_by_one(self, graph, run):
        a, out = variable(graph, [4], "a"), variable(graph, [], "out")
        graph.createHostWrite("a", a)
        compute_set = graph.addComputeSet()
        vertex = add(graph, compute_set, Several, {"out": out})
        graph.setFieldSize(vertex["parts"], 2)
        graph.connect(vertex["parts"][0], a[:3])
        graph.connect(vertex["parts"][1], a[3:])
        graph.setInitialValue(vertex["factor"], 1.0)
        engine = run(graph, Execute(compute_set))
        engine.writeTensor("a", np.ones(4, np.float32))
        engine.run()
        assert engine.readTensor("out") == 4

    def test_every_worker_of_a_multi_vertex_runs(self, graph, run):
        values = variable(graph, [8], "values")
        compute_set = graph.addComputeSet()
        add(graph, compute_set, Shared, {"values": values})
        assert run(graph, Execute(compute_set)).readTensor("values").tolist() == [0, 1, 2, 3, 4, 5, 0, 1]

    def test_an_input_can_be_a_number(self, graph, run):
        out = variable(graph, [2], "out")
        compute_set = graph.addComputeSet()
        add(graph, compute_set, Move, {"in": [3.0, 4.0], "out": out})
        assert run(graph, Execute(compute_set)).readTensor("out").tolist() == [3, 4]

    def test_many_vertices_can_be_added_at_once(self, graph, run):
        a, b = variable(graph, [6, 4], "a"), variable(graph, [6, 4], "b")
        graph.createHostWrite("a", a)
        compute_set = graph.addComputeSet()
        graph.addVertices(compute_set, Move, {"in": a, "out": b}, tiles=np.arange(6), cycles=10)
        engine = run(graph, Execute(compute_set))
        values = np.arange(24, dtype=np.float32).reshape(6, 4)
        engine.writeTensor("a", values)
        engine.run()
        assert (engine.readTensor("b") == values).all()

    @pytest.mark.parametrize(
        ("fields", "error", "message"),
        [
            ({"wrong": "a"}, poplar.unknown_field, "no field 'wrong'. Its fields: in, out"),
            ({"in": "half"}, poplar.type_error, "takes float, and the tensor has half"),
            ({"in": "scalar"}, poplar.graph_connection_error, "needs one dimension"),
            ({"in": "matrix"}, poplar.graph_connection_error, "needs one dimension"),
            ({"out": "constant"}, poplar.graph_connection_error, "is a constant"),
            ({"in": "a"}, poplar.graph_connection_error, "'out' of vertex 0 .* is not connected"),
        ],
    )
    def test_a_connection_that_does_not_fit_is_refused(self, graph, fields, error, message):
        tensors = {
            "a": variable(graph, [4], "a"),
            "half": graph.addVariable(HALF, [4], "half"),
            "scalar": variable(graph, [], "scalar"),
            "matrix": variable(graph, [2, 2], "matrix"),
            "constant": graph.addConstant(FLOAT, [4], 1.0),
        }
        graph.setTileMapping(tensors["half"], 0)
        graph.setTileMapping(tensors["constant"], 0)
        compute_set = graph.addComputeSet()

        def connect():
            add(graph, compute_set, Move, {name: tensors[value] for name, value in fields.items()})
            poplar.Engine(graph, Execute(compute_set))

        with pytest.raises(error, match=message):
            connect()

    def test_a_field_that_is_connected_twice_is_refused(self, graph):
        a = variable(graph, [4], "a")
        compute_set = graph.addComputeSet()
        vertex = add(graph, compute_set, Move, {"in": a[:2], "out": a[2:]})
        graph.connect(vertex["in"], a[:2])
        with pytest.raises(poplar.graph_connection_error, match=r"'in' of vertex 0 .* is connected twice"):
            poplar.Engine(graph, Execute(compute_set))

    def test_a_codelet_that_nobody_added_is_refused(self, graph, tmp_path):
        with pytest.raises(poplar.unknown_vertex_type, match="no codelet 'Nothing'"):
            graph.addVertex(graph.addComputeSet(), "Nothing")
        with pytest.raises(poplar.file_load_error, match="no codelet file"):
            graph.addCodelets(str(tmp_path / "nothing.py"))
        (tmp_path / "empty.py").write_text("x = 1")
        with pytest.raises(poplar.graph_object_creation_error, match="no subclass"):
            graph.addCodelets(str(tmp_path / "empty.py"))

    def test_codelets_can_stand_in_a_file_of_their_own(self, graph, run, tmp_path):
        (tmp_path / "codelets.py").write_text(
            "from poplar import *\nclass Twice(Vertex):\n    x: InOut[Vector[INT]]\n"
            "    def compute(self):\n        self.x *= 2\n        return True\n"
        )
        graph.addCodelets(str(tmp_path / "codelets.py"))
        tensor = graph.addVariable(INT, [2], "t")
        graph.setTileMapping(tensor, 0)
        graph.createHostWrite("t", tensor)
        graph.createHostRead("t", tensor)
        compute_set = graph.addComputeSet()
        add(graph, compute_set, "Twice", {"x": tensor})
        engine = run(graph, Execute(compute_set))
        engine.writeTensor("t", np.array([3, 4], np.int32))
        engine.run()
        assert engine.readTensor("t").tolist() == [6, 8]


class Reads(Vertex):
    """Looks at an element that may not be there."""

    a: Input[Vector[FLOAT]]
    out: Output[FLOAT]
    place: int

    def compute(self):
        self.out.value = self.a[self.place]
        return True


class AllAtOnce(Vertex):
    a: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    @staticmethod
    def computeAll(fields):
        raise ZeroDivisionError("nothing to divide")


def test_an_exception_in_a_codelet_names_the_vertex_and_keeps_the_users_own(graph, run):
    data, out = graph.addVariable(FLOAT, [4], "data"), graph.addVariable(FLOAT, [2], "out")
    graph.setTileMapping(data, 0)
    graph.setTileMapping(out, 0)
    compute_set = graph.addComputeSet("reads")
    for place in range(2):
        vertex = graph.addVertex(compute_set, Reads, {"a": data, "out": out[place]})
        graph.setInitialValue(vertex["place"], 7 * place)
        graph.setTileMapping(vertex, 0)
    with pytest.raises(
        poplar.application_runtime_error, match=r"Vertex 1 of .*reads.* raised IndexError: index 7"
    ) as caught:
        run(graph, Execute(compute_set))
    causes, error = [], caught.value
    while error is not None:
        causes.append(type(error))
        error = error.__cause__
    assert IndexError in causes


def test_an_exception_in_a_batch_names_the_codelet(graph, run):
    data, out = graph.addVariable(FLOAT, [4], "data"), graph.addVariable(FLOAT, [], "out")
    graph.setTileMapping(data, 0)
    graph.setTileMapping(out, 0)
    compute_set = graph.addComputeSet("batch")
    graph.setTileMapping(graph.addVertex(compute_set, AllAtOnce, {"a": data, "out": out}), 0)
    with pytest.raises(
        poplar.application_runtime_error, match=r"AllAtOnce of .*batch.*raised ZeroDivisionError: nothing"
    ):
        run(graph, Execute(compute_set))


@pytest.mark.parametrize("elements", [1 << 44, 1 << 58])
def test_more_data_than_this_machine_has_memory_is_refused_and_can_be_planned(graph, device, elements):
    huge = graph.addVariable(FLOAT, [elements], "huge")
    graph.setTileMapping(huge, 0)
    engine = poplar.Engine(graph, Copy(huge, graph.addDeviceToHostFIFO("out", FLOAT, elements)))
    with pytest.raises(poplar.graph_memory_allocation_error, match=r"GiB of memory. The largest is 'huge'"):
        engine.load(device)
    assert not engine.getPlan().fit.fits
