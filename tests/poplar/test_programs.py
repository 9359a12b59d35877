"""Programs: what each does, what state is kept, and what is refused."""

from __future__ import annotations

import io

import numpy as np
import pytest

import poplar
from poplar import BOOL, FLOAT, INT, UNSIGNED_INT, InOut, Input, Output, Vector, Vertex
from poplar.program import (
    Abort,
    AbortOnCondition,
    Call,
    Copy,
    CrossReplicaCopy,
    ErrorProgram,
    Execute,
    If,
    PrintTensor,
    Repeat,
    RepeatWhileFalse,
    RepeatWhileTrue,
    Sequence,
    Switch,
    Sync,
    WriteUndef,
)


class AddOne(Vertex):
    x: InOut[FLOAT]

    def compute(self):
        self.x.value += 1
        return True


class Increment(Vertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self):
        if len(self.x) != len(self.y):
            return False
        for i in range(len(self.x)):
            self.y[i] = self.x[i] + 1
        return True


class Below(Vertex):
    x: Input[FLOAT]
    limit: float
    out: Output[BOOL]

    def compute(self):
        self.out.value = self.x.value < self.limit
        return True


@pytest.fixture
def counter(graph):
    """A number on tile 0 that starts at zero, and a program that adds one."""
    graph.addCodelets(AddOne)
    number = graph.addVariable(FLOAT, [], "number")
    graph.setTileMapping(number, 0)
    graph.createHostRead("number", number)
    graph.createHostWrite("number", number)
    compute_set = graph.addComputeSet("count")
    vertex = graph.addVertex(compute_set, "AddOne", {"x": number})
    graph.setTileMapping(vertex, 0)
    return number, Execute(compute_set)


def constant(graph, element, value):
    made = graph.addConstant(element, [], value)
    graph.setTileMapping(made, 0)
    return made


def variable(graph, element, shape, name="v", tile=0):
    made = graph.addVariable(element, shape, name)
    graph.setTileMapping(made, tile)
    graph.createHostRead(name, made)
    graph.createHostWrite(name, made)
    return made


def test_variables_keep_their_values_from_run_to_run(graph, counter, run):
    engine = run(graph, counter[1])
    engine.run()
    engine.run()
    assert engine.readTensor("number") == 3
    engine.writeTensor("number", np.float32(10))
    engine.run()
    assert engine.readTensor("number") == 11


def test_loading_again_gives_fresh_memory(graph, counter, run, device):
    engine = run(graph, counter[1])
    engine.load(device)
    assert engine.readTensor("number") == 0


def test_repeat_runs_a_program_so_many_times(graph, counter, run):
    assert run(graph, Repeat(5, counter[1])).readTensor("number") == 5
    assert run(graph, Repeat(0, counter[1])).readTensor("number") == 0


@pytest.mark.parametrize(("start", "expected"), [(0.0, 4.0), (9.0, 9.0)])
def test_a_while_loop_tests_before_its_body(graph, counter, run, device, start, expected):
    number, count = counter
    graph.addCodelets(Below)
    flag = variable(graph, BOOL, [], "flag")
    compute_set = graph.addComputeSet("test")
    vertex = graph.addVertex(compute_set, "Below", {"x": number, "out": flag})
    graph.setInitialValue(vertex["limit"], 4.0)
    graph.setTileMapping(vertex, 0)
    engine = poplar.Engine(graph, RepeatWhileTrue(Execute(compute_set), flag, count))
    engine.load(device)
    engine.writeTensor("number", np.float32(start))
    engine.run()
    assert engine.readTensor("number") == expected


def test_a_while_loop_can_wait_for_false(graph, counter, run):
    done = variable(graph, BOOL, [], "done")
    program = RepeatWhileFalse(Sequence(), done, Sequence(counter[1], Copy(constant(graph, BOOL, True), done)))
    assert run(graph, program).readTensor("number") == 1


@pytest.mark.parametrize(("value", "expected"), [(True, 1.0), (False, 7.0)])
def test_if_chooses_one_of_two_programs(graph, counter, run, value, expected):
    number, count = counter
    program = If(constant(graph, BOOL, value), count, Copy(constant(graph, FLOAT, 7.0), number))
    assert run(graph, program).readTensor("number") == expected


@pytest.mark.parametrize(("value", "expected"), [(3, 1.0), (5, 2.0), (4, 9.0)])
def test_switch_chooses_a_case_or_the_default(graph, counter, run, value, expected):
    number, count = counter
    program = Switch(
        constant(graph, INT, value),
        [(3, count), (5, Repeat(2, count))],
        Copy(constant(graph, FLOAT, 9.0), number),
    )
    assert run(graph, program).readTensor("number") == expected


def test_a_function_is_called_from_several_places(graph, counter, run):
    function = graph.addFunction(Sequence(counter[1], counter[1]))
    assert run(graph, Sequence(Call(function), Call(function))).readTensor("number") == 4


def test_a_sequence_that_was_added_does_not_grow(graph, counter, run):
    inner = Sequence(counter[1])
    outer = Sequence(inner)
    inner.add(counter[1])
    assert run(graph, outer).readTensor("number") == 1


def test_an_engine_runs_the_program_that_is_chosen(graph, counter, device):
    engine = poplar.Engine(graph, [counter[1], Repeat(10, counter[1])])
    engine.load(device)
    engine.run(1)
    engine.run(0)
    assert engine.readTensor("number") == 11
    with pytest.raises(poplar.control_program_error, match="no program 2"):
        engine.run(2)


def test_a_copy_needs_equal_elements_and_not_equal_shapes(graph, run):
    source, target = variable(graph, FLOAT, [3], "a"), variable(graph, FLOAT, [1, 3], "b", 1)
    engine = run(graph, Copy(source, target))
    engine.writeTensor("a", np.array([1, 2, 3], np.float32))
    engine.run()
    assert engine.readTensor("b").tolist() == [[1, 2, 3]]
    with pytest.raises(poplar.poplar_error, match="3 elements"):
        Copy(source, variable(graph, FLOAT, [4], "c"))
    with pytest.raises(poplar.type_error):
        Copy(source, variable(graph, INT, [3], "d"))
    with pytest.raises(poplar.poplar_error, match="constant"):
        Copy(source[0], graph.addConstant(FLOAT, [], 1.0))


def test_a_copy_within_a_tensor_reads_before_it_writes(graph, run):
    whole = variable(graph, FLOAT, [4], "a")
    engine = run(graph, Copy(whole, whole.reverse(0)))
    engine.writeTensor("a", np.arange(4, dtype=np.float32))
    engine.run()
    assert engine.readTensor("a").tolist() == [3, 2, 1, 0]


def test_a_copy_to_every_second_element_reads_before_it_writes(graph, run):
    whole = variable(graph, FLOAT, [8], "a")
    engine = run(graph, Copy(whole[:4], whole.subSample(2, 0)))
    engine.writeTensor("a", np.arange(8, dtype=np.float32))
    engine.run()
    assert engine.readTensor("a").tolist() == [0, 1, 1, 3, 2, 5, 3, 7]


def test_a_vertex_may_read_and_write_one_tensor(graph, run):
    graph.addCodelets(Increment)
    tensor = variable(graph, FLOAT, [8], "data")
    compute_set = graph.addComputeSet()
    vertex = graph.addVertex(compute_set, "Increment")
    graph.connect(vertex["x"], tensor)
    graph.connect(vertex["y"], tensor)
    graph.setTileMapping(vertex, 0)
    assert run(graph, Repeat(3, Execute(compute_set))).readTensor("data").tolist() == [3.0] * 8


def test_a_vertex_that_returns_false_stops_the_program(graph, run):
    graph.addCodelets(Increment)
    compute_set = graph.addComputeSet("wrong sizes")
    vertex = graph.addVertex(
        compute_set, Increment, {"x": variable(graph, FLOAT, [2], "x"), "y": variable(graph, FLOAT, [3], "y")}
    )
    graph.setTileMapping(vertex, 0)
    with pytest.raises(poplar.application_runtime_error, match=r"wrong sizes.*Increment.*test_programs\.py") as caught:
        run(graph, Execute(compute_set))
    assert "returned False" in str(caught.value)


class TestStreams:
    def test_a_buffer_is_a_ring_with_one_cursor(self, graph, run, device):
        tensor = variable(graph, INT, [2], "t")
        stream = graph.addHostToDeviceFIFO("in", INT, 2)
        engine = poplar.Engine(graph, Copy(stream, tensor))
        engine.load(device)
        engine.connectStream("in", np.arange(6, dtype=np.int32))
        seen = []
        for _ in range(4):
            engine.run()
            seen.append(engine.readTensor("t").tolist())
        assert seen == [[0, 1], [2, 3], [4, 5], [0, 1]]

    def test_what_leaves_the_device_goes_round_as_well(self, graph, counter, device):
        stream = graph.addDeviceToHostFIFO("out", FLOAT, 1)
        engine = poplar.Engine(graph, Repeat(5, Sequence(counter[1], Copy(counter[0], stream))))
        engine.load(device)
        buffer = np.zeros(3, np.float32)
        engine.connectStream("out", buffer)
        engine.run()
        assert buffer.tolist() == [4, 5, 3]

    def test_callbacks_are_asked_in_advance_and_told_when_it_was_in_vain(self, graph, device):
        tensor = variable(graph, FLOAT, [4], "t")
        stream = graph.addHostToDeviceFIFO("in", FLOAT, 4)
        log = []

        class Fill(poplar.StreamCallback):
            def __init__(self, value):
                self.value = value

            def prefetch(self, buffer):
                log.append(("prefetch", self.value))
                buffer[:] = self.value
                return self.Result.Success

            def fetch(self, buffer):
                log.append(("fetch", self.value))
                buffer[:] = self.value

            def complete(self):
                log.append(("complete", self.value))

            def invalidatePrefetched(self):
                log.append(("invalidate", self.value))

        options = {"exchange.streamBufferOverlap": "none", "exchange.enablePrefetch": "true"}
        engine = poplar.Engine(graph, Repeat(2, Copy(stream, tensor)), options)
        engine.load(device)
        engine.connectStreamToCallback("in", Fill(1))
        engine.run()
        engine.connectStreamToCallback("in", Fill(2))
        engine.run()
        assert engine.readTensor("t").tolist() == [2.0] * 4
        assert log == [
            ("fetch", 1),
            ("complete", 1),
            ("prefetch", 1),
            ("complete", 1),
            ("prefetch", 1),
            ("invalidate", 1),
            ("fetch", 2),
            ("complete", 2),
            ("prefetch", 2),
            ("complete", 2),
            ("prefetch", 2),
        ]

    def test_a_function_can_be_a_callback(self, graph, device):
        tensor = variable(graph, FLOAT, [2], "t")
        out = graph.addDeviceToHostFIFO("out", FLOAT, 2)
        engine = poplar.Engine(
            graph, Sequence(Copy(graph.addHostToDeviceFIFO("in", FLOAT, 2), tensor), Copy(tensor, out))
        )
        engine.load(device)
        seen = []
        engine.connectStream("in", lambda buffer: buffer + 3)
        engine.connectStream("out", lambda buffer: seen.append(buffer.tolist()))
        engine.run()
        assert seen == [[3.0, 3.0]]

    @pytest.mark.parametrize(
        ("connect", "message"),
        [
            (lambda engine: None, "not connected"),
            (lambda engine: engine.connectStream("nowhere", np.zeros(2, np.int32)), "no stream 'nowhere'"),
            (lambda engine: engine.connectStream("in", np.zeros(2, np.float64)), "float64"),
            (lambda engine: engine.connectStream("in", np.zeros(3, np.int32)), "whole multiple"),
            (lambda engine: engine.connectStream("in", [1, 2]), "numpy array"),
        ],
    )
    def test_a_stream_that_is_not_connected_well_is_refused(self, graph, device, connect, message):
        tensor = variable(graph, INT, [2], "t")
        engine = poplar.Engine(graph, Copy(graph.addHostToDeviceFIFO("in", INT, 2), tensor))
        engine.load(device)

        def connect_and_run():
            connect(engine)
            engine.run()

        with pytest.raises(poplar.stream_connection_error, match=message):
            connect_and_run()


def test_host_functions_get_arrays_and_fill_arrays(graph, device):
    tensor = variable(graph, FLOAT, [3], "t")
    function = graph.addHostFunction("double", [(FLOAT, 3)], [(FLOAT, 3)])
    engine = poplar.Engine(graph, Call(function, [tensor], [tensor]))
    engine.load(device)
    engine.writeTensor("t", np.array([1, 2, 3], np.float32))
    with pytest.raises(poplar.stream_connection_error, match="'double' is not connected"):
        engine.run()

    def double(inputs, outputs):
        outputs[0][:] = 2 * inputs[0]

    engine.connectHostFunction("double", 0, double)
    engine.run()
    assert engine.readTensor("t").tolist() == [2, 4, 6]
    with pytest.raises(poplar.control_program_error, match="takes inputs"):
        Call(function, [tensor[:2]], [tensor])


def test_remote_buffers_are_read_and_written_by_row(graph, device):
    tensor, rows = variable(graph, FLOAT, [2], "t"), variable(graph, UNSIGNED_INT, [1], "row")
    buffer = graph.addRemoteBuffer("store", FLOAT, 2, repeats=4)
    engine = poplar.Engine(graph, [Copy(buffer, tensor, rows), Copy(tensor, buffer, rows)])
    engine.load(device)
    engine.copyToRemoteBuffer(np.array([5, 6], np.float32), "store", 2)
    engine.writeTensor("row", np.array([2], np.uint32))
    engine.run(0)
    assert engine.readTensor("t").tolist() == [5, 6]
    engine.writeTensor("row", np.array([3], np.uint32))
    engine.run(1)
    assert engine.copyFromRemoteBuffer("store", index=3).tolist() == [5, 6]
    engine.writeTensor("row", np.array([4], np.uint32))
    with pytest.raises(poplar.application_runtime_error, match="4 rows, and row 4"):
        engine.run(0)


def test_a_printed_tensor_looks_as_in_the_current_sdk_or_as_in_the_older_ones(graph, device):
    matrix, numbers = variable(graph, FLOAT, [2, 2], "m"), variable(graph, INT, [3], "n")
    program = Sequence(PrintTensor("v3", matrix), PrintTensor("v4", numbers))
    texts = []
    for options in ({}, {"debug.printTensorFormat": "braces"}):
        engine = poplar.Engine(graph, program, options)
        engine.load(device)
        engine.writeTensor("m", np.array([[5, 4.5], [4, 3.5]], np.float32))
        engine.writeTensor("n", np.array([10, 11, 12], np.int32))
        engine.setPrintTensorStream(text := io.StringIO())
        engine.run()
        texts.append(text.getvalue())
    assert texts[0] == "v3: [\n [5.0000000 4.5000000]\n [4.0000000 3.5000000]\n]\nv4: [10 11 12]\n"
    assert texts[1] == "v3: {\n {5,4.5},\n {4,3.5}\n}\nv4: {10,11,12}\n"


def test_programs_that_stop_say_why(graph, counter, run):
    with pytest.raises(poplar.application_runtime_error, match="enough"):
        run(graph, Abort("enough"))
    run(graph, AbortOnCondition(constant(graph, BOOL, False)))
    with pytest.raises(poplar.application_runtime_error, match="condition is true"):
        run(graph, AbortOnCondition(constant(graph, BOOL, True)))
    with pytest.raises(poplar.application_runtime_error, match=r"look: 1\.0 .*test_programs\.py"):
        run(graph, Sequence(counter[1], ErrorProgram("look", counter[0])))


def test_undefined_values_and_syncs_change_nothing(graph, counter, run):
    number, count = counter
    assert run(graph, Sequence(count, Sync(), WriteUndef(number), Sequence())).readTensor("number") == 1


def test_replicas_have_their_own_memory_and_can_copy_from_each_other(device):
    model = poplar.IPUModel("ipu2")
    model.tilesPerIPU, model.numIPUs = 4, 2
    device = model.createDevice()
    graph = poplar.Graph(device, 2)
    assert graph.getTarget().getNumTiles() == 4
    a, b = variable(graph, FLOAT, [2], "a"), variable(graph, FLOAT, [2], "b")
    engine = poplar.Engine(graph, CrossReplicaCopy(a, b, {0: 1, 1: 0}))
    engine.load(device)
    engine.writeTensor("a", np.array([[1, 2], [3, 4]], np.float32))
    engine.run()
    assert engine.readTensor("b").tolist() == [[3, 4], [1, 2]]


def test_a_function_that_calls_itself_is_refused(graph, device):
    inner = Sequence()
    function = graph.addFunction(inner)
    inner.add(Call(function))
    with pytest.raises(poplar.graph_recursion_error):
        poplar.Engine(graph, Call(function))


@pytest.mark.parametrize(
    ("mistake", "error"),
    [
        (lambda g: Repeat(-1, Sequence()), poplar.control_program_error),
        (lambda g: If(g.addVariable(BOOL, [2]), Sequence(), Sequence()), poplar.control_program_error),
        (lambda g: If(g.addVariable(FLOAT, []), Sequence(), Sequence()), poplar.control_program_error),
        (lambda g: Switch(g.addVariable(INT, []), [(1, Sequence()), (1, Sequence())]), poplar.control_program_error),
        (lambda g: Copy(1, 2), poplar.control_program_error),
        (lambda g: Execute(g), poplar.control_program_error),
        (lambda g: Sequence(3.0 for _ in range(1)), poplar.control_program_error),
        (lambda g: [g.addHostToDeviceFIFO("s", INT, 1), g.addHostToDeviceFIFO("s", INT, 1)], poplar.poplar_error),
        (lambda g: poplar.Engine(g, Sequence(), {"debug.nonsense": "1"}), poplar.invalid_option),
        (lambda g: poplar.Engine(g, Sequence(), {"debug.checkRaces": "maybe"}), poplar.invalid_option),
        (lambda g: poplar.Engine(g, Sequence()).run(), poplar.runtime_error),
        (lambda g: poplar.IPUModel("ipu9"), poplar.invalid_machine_model),
    ],
)
def test_a_program_that_cannot_be_is_refused(graph, mistake, error):
    with pytest.raises(error):
        mistake(graph)
