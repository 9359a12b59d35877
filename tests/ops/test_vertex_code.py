"""Code and descriptors: small, never free, and shared where an IPU shares them."""

from __future__ import annotations

from openipu.machine import Provenance
from openipu.ops import (
    CostStep,
    StepKind,
    estimate_control_code_bytes,
    estimate_exchange_code_bytes,
    estimate_step_state_bytes,
    estimate_vertex_code_bytes,
    estimate_vertex_state_bytes,
)
from openipu.ops.vertex_code import PROVENANCE


def test_a_matmul_vertex_has_more_code_than_an_addition() -> None:
    assert estimate_vertex_code_bytes("poplin::ConvPartial1x1Out<half,half>") > estimate_vertex_code_bytes(
        "popops::Add"
    )


def test_the_longest_name_decides() -> None:
    assert estimate_vertex_code_bytes("popops::ReducePartials<float>") == estimate_vertex_code_bytes("popops::Reduce")
    assert estimate_vertex_code_bytes("users::Own") == 260


def test_each_instance_has_its_own_state() -> None:
    step = CostStep(StepKind.COMPUTE, "add", 100, 8, vertex="popops::Add<half>", vertices_per_tile=3)
    assert estimate_vertex_state_bytes(step.vertex) == 2 * 4 + 8  # two pointers and a span
    assert estimate_step_state_bytes(step) == 3 * 16


def test_exchange_code_grows_with_messages_and_with_bytes_sent() -> None:
    step = CostStep(StepKind.EXCHANGE, "move", 100, 10, moved_bytes=10 * 600, messages_per_tile=5)
    assert estimate_exchange_code_bytes(step) == 4 * (3 + 5 + 3)  # set-up, pieces, three sends of at most 256 bytes
    assert estimate_exchange_code_bytes(CostStep(StepKind.COMPUTE, "add", 1, 1)) == 0


def test_a_repeated_step_adds_a_loop_and_no_second_copy() -> None:
    once = CostStep(StepKind.EXCHANGE, "move", 100, 10, moved_bytes=1000)
    often = CostStep(StepKind.EXCHANGE, "move", 100, 10, moved_bytes=1000, repeats=50)
    assert estimate_exchange_code_bytes(often) == estimate_exchange_code_bytes(once)
    assert estimate_control_code_bytes(often) == estimate_control_code_bytes(once) + 4 * 4


def test_every_kind_of_step_has_control_code() -> None:
    assert all(estimate_control_code_bytes(CostStep(kind, "any", 1, 1)) > 0 for kind in StepKind)


def test_sizes_say_that_nobody_published_them() -> None:
    assert {source.provenance for source in PROVENANCE.values()} <= {Provenance.GUESSED, Provenance.DERIVED}
