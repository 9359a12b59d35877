"""Plans of remote buffers: they lie beside the IPU, and what is loaded or stored of them is paid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import popxl
from openipu.plan import Plan
from popxl import ops

ENTRY_BYTES = 4 * 64 * 64


def plan_program(build: Any) -> tuple[Plan, np.ndarray[Any, Any]]:
    """The plan of a program over a buffer of five entries that are 0 to 4, and the entries after a run."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((64, 64), popxl.float32, 5)
        variables = [popxl.remote_variable(np.full((64, 64), i, np.float32), buffer, i) for i in range(5)]
        build(ir, buffer)
    with popxl.Session(ir, "ipu_model") as session:
        session.run()
        plan = session.plan
    return plan, np.array([variables[i]._data[0, 0] for i in range(5)])


def list_transfers(plan: Plan) -> list[tuple[str, float]]:
    """Names and seconds of what goes over the link to the memory beside the IPU."""
    clock = plan.system.target.clock_hz
    return [(step.name, step.cycles / clock) for step in plan.steps if "streaming memory" in step.name]


def count_seconds(plan: Plan, entries: int) -> float:
    return entries * ENTRY_BYTES / plan.system.streaming_bytes_per_second


def test_an_entry_is_paid_for_and_the_buffer_takes_no_memory() -> None:
    def build(ir: popxl.Ir, buffer: popxl.RemoteBuffer) -> None:
        ops.remote_store(buffer, 3, ops.remote_load(buffer, 2) + 10)

    plan, entries = plan_program(build)
    np.testing.assert_array_equal(entries, [0, 1, 2, 12, 4])
    assert list_transfers(plan) == [
        ("load from streaming memory", pytest.approx(count_seconds(plan, 1))),
        ("store to streaming memory", pytest.approx(count_seconds(plan, 1))),
    ]
    assert all(variable.shape != (5, 64, 64) for variable in plan.variables)
    # the entry that was loaded, once: its copy is what was loaded
    assert sum(variable.shape == (64, 64) for variable in plan.variables) == 1


def test_entries_of_a_loop_are_paid_as_often_as_it_runs() -> None:
    def build(ir: popxl.Ir, buffer: popxl.RemoteBuffer) -> None:
        def double(place: popxl.Tensor) -> popxl.Tensor:
            ops.remote_store(buffer, place, ops.remote_load(buffer, place) * 2)
            return place + 1

        start = popxl.variable(np.array(1, np.int32))
        ops.repeat(ir.create_graph(double, start), 3, start)
        ops.remote_load(buffer, 0)  # not the loop alone: it stays a loop

    plan, entries = plan_program(build)
    np.testing.assert_array_equal(entries, [0, 2, 4, 6, 4])
    inside = [entry for entry in list_transfers(plan) if entry[1] > count_seconds(plan, 2)]
    assert inside == [
        ("load from streaming memory", pytest.approx(count_seconds(plan, 3))),
        ("store to streaming memory", pytest.approx(count_seconds(plan, 3))),
    ]
    held = sum(variable.mapping.total_bytes for variable in plan.variables)
    assert held < 3 * ENTRY_BYTES  # one that is loaded, one that is stored, and less than a third


def test_a_buffer_in_a_loop_inside_of_a_loop_is_still_beside_the_ipu() -> None:
    def build(ir: popxl.Ir, buffer: popxl.RemoteBuffer) -> None:
        def add_one() -> None:
            ops.remote_store(buffer, 4, ops.remote_load(buffer, 4) + 1)

        def repeat() -> None:
            ops.repeat(ir.create_graph(add_one), 3)

        ops.repeat(ir.create_graph(repeat), 2)
        ops.remote_load(buffer, 0)

    plan, entries = plan_program(build)
    np.testing.assert_array_equal(entries, [0, 1, 2, 3, 10])
    inside = [entry for entry in list_transfers(plan) if entry[1] > count_seconds(plan, 2)]
    assert [seconds for _, seconds in inside] == [pytest.approx(count_seconds(plan, 6))] * 2
    assert sum(variable.mapping.total_bytes for variable in plan.variables) < 3 * ENTRY_BYTES
