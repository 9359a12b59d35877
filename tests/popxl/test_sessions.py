"""The life of a session: variables, streams, devices, plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import popart
import popxl
from openipu.graph import InputKind, Phase, note_of
from popxl import ops

ONES = np.ones((2, 2), np.float32)


def count_up(**settings: Any) -> tuple[Any, ...]:
    """A program that adds what it loads to a variable and stores it."""
    ir = popxl.Ir(**settings)
    with ir.main_graph:
        source, target = popxl.h2d_stream((2, 2), popxl.float32), popxl.d2h_stream((2, 2), popxl.float32)
        total = popxl.variable(ONES, name="total")
        ops.add_(total, ops.host_load(source))
        ops.host_store(target, total)
    return ir, source, target, total


def test_variables_live_on_the_device_until_they_are_read() -> None:
    ir, source, target, total = count_up()
    session = popxl.Session(ir, "ipu_model")
    assert session.expected_inputs() == [source]
    with session:
        for step in range(3):
            assert session.run({source: ONES})[target][0, 0] == 2 + step
        assert total._data[0, 0] == 1  # nothing was read yet
        assert session.get_tensor_data(total)[0, 0] == 4
        session.write_variable_data(total, ONES * 10)
        assert session.run({source: ONES})[target][0, 0] == 11
    assert session.get_tensor_data(total)[0, 0] == 11  # on the way out
    with session, session:
        assert session.run({source: ONES})[target][0, 0] == 12
    assert not session.is_attached
    quiet = popxl.Session(ir, "ipu_model", weights_to_host_on_exit=False)
    with quiet:
        quiet.run({source: ONES})
    assert quiet.get_tensor_data(total)[0, 0] == 12


def test_what_needs_the_device_is_refused_without_it() -> None:
    ir, source, _, total = count_up()
    session = popxl.Session(ir, "cpu")
    for call in (lambda: session.run({source: ONES}), session.weights_to_host, session.weights_from_host):
        with pytest.raises(ValueError, match="Must be attached to device"):
            call()
    assert session.get_tensor_data(total)[0, 0] == 1
    with pytest.raises(ValueError, match="Incorrect device type"):
        popxl.Session(ir, "gpu")
    with pytest.raises(RuntimeError, match="has no graphs"):
        popxl.Session(popxl.Ir(), "cpu")
    with pytest.raises(RuntimeError, match="already prepared"):
        ir.replication_factor = 2
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
    attached = popxl.Session(ir, device)
    assert attached.is_attached
    attached.run({source: ONES})


def test_arrays_have_to_have_the_shape_of_their_stream() -> None:
    ir, source, target, total = count_up()
    with popxl.Session(ir, "ipu_model") as session:
        with pytest.raises(ValueError, match="Shape mismatch for input stream"):
            session.run({source: np.ones((2, 3), np.float32)})
        with pytest.raises(ValueError, match="Unexpected/Missing input"):
            session.run({})
        with pytest.raises(ValueError, match="Unexpected/Missing output"):
            session.run_with_outputs({source: ONES}, {})
        with pytest.raises(ValueError, match="Shape mismatch for output stream"):
            session.run_with_outputs({source: ONES}, {target: np.ones(3, np.float32)})
        with pytest.raises(ValueError, match="holds int32, and the stream"):
            session.run({source: np.ones((2, 2), np.int32)})
        with pytest.raises(TypeError, match="must match the equivalent type"):
            session.write_variable_data(total, np.ones((2, 2)))
        with pytest.raises(ValueError, match="must match the shape"):
            session.write_variable_data(total, ONES[0])
        with pytest.raises(TypeError, match="not of type Constant or Variable"):
            session.get_tensor_data(total.ir.main_graph.tensors[-1])
        room = session.create_host_outputs()
        session.run_with_outputs({source: ONES.astype(np.float64)}, room)
        assert room[target][0, 0] == 2


@pytest.mark.parametrize(("transfers", "replicas"), [(3, 1), (1, 2), (3, 2)])
def test_transfers_and_replicas_are_dimensions_of_arrays(transfers: int, replicas: int) -> None:
    ir = popxl.Ir(replication=replicas)
    ir.num_host_transfers = transfers
    with ir.main_graph:
        source, target = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        graph = ir.create_graph(lambda: ops.host_store(target, ops.host_load(source) * 2))
        ops.repeat(graph, transfers)
    sizes = tuple(size for size in (transfers, replicas) if size > 1)
    data = np.random.default_rng(0).normal(size=(*sizes, 2)).astype(np.float32)
    with popxl.Session(ir, "ipu_model") as session:
        np.testing.assert_allclose(session.run({source: data})[target], data * 2)
        if transfers > 1:
            with pytest.raises(ValueError, match="not large enough"):
                session.run({source: data[:1]})
        if replicas > 1:
            with pytest.raises(ValueError, match="should be of size replication_factor = 2"):
                session.run({source: np.zeros((*sizes[:-1], 3, 2), np.float32)})


def test_remote_buffers_keep_their_entries() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.remote_buffer((2, 2), popxl.float32, 3)
        first = popxl.remote_variable(ONES, buffer, 0)
        second = popxl.remote_variable(ONES * 5, buffer, 2)
        value = ops.remote_load(buffer, 0)
        where = popxl.variable(2, popxl.uint32)
        ops.add_(value, ops.remote_load(buffer, where))
        ops.remote_store(buffer, where, value)

        def step(where: popxl.Tensor) -> None:
            ops.remote_store(buffer, where, ops.remote_load(buffer, where) * 2)

        ops.repeat(ir.create_graph(step, where), 3, where)
        with pytest.raises(ValueError, match="does not match buffer"):
            ops.remote_store(buffer, 0, popxl.variable(ONES[0]))
        with pytest.raises(ValueError, match="Entries must be"):
            popxl.remote_buffer((2,), popxl.float32, 0)
    with popxl.Session(ir, "ipu_model") as session:
        session.run()
        found = session.get_tensors_data([first, second])
        assert (found[first][0, 0], found[second][0, 0]) == (1, 48)
        session.write_variable_data(first, ONES * 3)
        session.run()
    assert session.get_tensor_data(second)[0, 0] == (48 + 3) * 8


def train_step(ipus: int = 1) -> tuple[Any, ...]:
    ir = popxl.Ir()
    with ir.main_graph:
        source = popxl.h2d_stream((4, 8), popxl.float32, name="images")
        x = ops.host_load(source)
        w = popxl.variable(np.ones((8, 8), np.float32), name="w")
        graph = ir.create_graph(lambda x, w: ops.tanh(x @ w), x, w)
        call = ops.call_with_info(graph, x, w)
        info = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[1]])
        seed = popxl.constant(np.ones((4, 8), np.float32))
        (gradient,) = ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))
        with popxl.ipu(ipus - 1):
            y = call.outputs[0].copy_to_ipu(ipus - 1) if ipus > 1 else call.outputs[0]
            out = ops.sum(y)
        ops.var_updates.accumulate_(w, gradient, -0.1)
        target = popxl.d2h_stream((), popxl.float32)
        ops.host_store(target, out)
    return ir, source, target, w


def test_one_program_with_the_users_lines_phases_and_ipus() -> None:
    ir, _, _, w = train_step(ipus=2)
    session = popxl.Session(ir, "ipu_model")
    program = session._compiled.lowered.program
    graph = program.micro.module.graph
    products = graph.find_nodes(op="call_function", target=__import__("torch").ops.aten.mm.default)
    notes = [note_of(node) for node in products]
    assert [note.phase for note in notes] == [Phase.FORWARD, Phase.BACKWARD]  # forward is not computed twice
    assert len({note.line for note in notes}) == 1
    line = notes[0].line
    assert line is not None
    assert "x @ w" in Path(line.file).read_text().splitlines()[line.line - 1]
    phases = {note_of(node).phase for node in graph.nodes if node.op == "call_function"}
    assert phases == set(Phase)
    assert {note_of(node).ipu for node in graph.nodes} == {0, 1}
    assert [entry.name for entry in program.micro.inputs_of(InputKind.BUFFER)] == [w.id]
    assert session.plan.fit.fits


def test_a_repeat_is_planned_as_often_as_it_runs() -> None:
    def plan(count: int) -> Any:
        ir = popxl.Ir()
        with ir.main_graph:
            x = popxl.variable(np.ones((64, 64), np.float32))
            (y,) = ops.repeat(ir.create_graph(lambda x: ops.tanh(x @ x), x), count, x)
            target = popxl.d2h_stream(y.shape, y.dtype)
            ops.host_store(target, y)
        return popxl.Session(ir, "ipu_model").plan

    few, many = (plan(count).timing.call_cycles for count in (10, 1000))
    assert 50 < many / few < 110


def test_options_of_the_program_reach_the_plan() -> None:
    ir, *_ = train_step()
    options = ir._pb_ir.getSessionOptions()
    options.numIOTiles, options.partialsTypeMatMuls = 32, "half"
    chosen = popxl.Session(ir, "ipu_model").plan.options
    assert (chosen.io_tiles, chosen.half_partials) == (32, True)


def test_a_program_is_drawn(tmp_path: Path) -> None:
    ir, *_ = train_step()
    ir.dot_checkpoint("Final", tmp_path)
    text = (tmp_path / "Final.dot").read_text()
    assert "MatMulGrad" in text
    assert text.count("subgraph cluster") == 3
