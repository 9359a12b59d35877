"""The text summary says what matters, in human units, and never claims a measurement."""

from __future__ import annotations

import dataclasses

import pytest
from plan_factory import PlanBuilder, make_bert_plan, make_cnn_plan, make_oversized_plan

from openipu.graph import Phase, RunOptions
from openipu.machine import Provenance
from openipu.ops.cost import Family
from openipu.plan.types import Plan
from openipu.report import build_profile, render_text, summarise
from openipu.report.units import (
    format_bytes,
    format_bytes_of,
    format_probability,
    format_seconds,
    format_share,
    format_tile_bytes,
)


def make_small_plan() -> Plan:
    """A forward op of 1,000 cycles, an update op of 400, and a host stream, accumulated over 4 micro-batches."""
    options = RunOptions(training=True, gradient_accumulation=4, device_iterations=3, replicas=2)
    build = PlanBuilder("tiny", options, micro_batch=5)
    build.add_op("aten.mm.default", Family.MATMUL, Phase.FORWARD, "layer", cycles=1000, flops=10, line=3)
    build.add_op(
        "aten.odd.default", Family.UNKNOWN, Phase.UPDATE, "layer", cycles=400, provenance=Provenance.GUESSED, line=9
    )
    build.add_host_step("load", 0)
    return build.build(guesses={"aten.odd.default": 1})


def test_a_fitting_plan_says_how_full_its_fullest_tile_is() -> None:
    plan = make_bert_plan(rounds=1)
    text = render_text(summarise(plan))
    peak, limit = plan.fit.peak_bytes, plan.fit.limit_bytes
    assert f"Fits: the fullest tile needs {format_bytes_of(peak, limit)}" in text
    assert f"({peak / limit * 100:.1f} %)" in text
    assert "DOES NOT FIT" not in text
    assert f"Probability that it fits a real IPU: {format_probability(plan.fit.probability)}." in text


def test_a_plan_that_does_not_fit_names_bytes_tiles_tensors_modules_and_lines() -> None:
    plan = make_oversized_plan()
    text = render_text(summarise(plan))
    fit = plan.fit
    assert f"DOES NOT FIT: {format_bytes(fit.bytes_over)} too much on {fit.tiles_over:,} tiles." in text
    assert f"{format_tile_bytes(fit.peak_bytes - fit.limit_bytes)} over" in text
    assert fit.probability < 0.5
    assert f"Probability that it fits a real IPU: {format_probability(fit.probability)}." in text
    row = next(line for line in text.splitlines() if "layer.11.output.dense.grad" in line)
    assert format_bytes(fit.culprits[0].bytes_on_tile) in row
    assert "bert.encoder.layer.11.output.dense" in row
    assert "gradient" in row
    assert "model.py:156" in row


@pytest.mark.parametrize("make_plan", [make_cnn_plan, make_oversized_plan])
def test_every_summary_says_that_it_is_modelled(make_plan: object) -> None:
    assert "modelled by openipu" in render_text(summarise(make_plan()))  # type: ignore[operator]


def test_cycles_are_given_per_micro_batch_update_and_call_with_their_time() -> None:
    plan = make_small_plan()
    text = render_text(summarise(plan))
    clock = plan.system.target.clock_hz
    call = 3 * (4 * 1000 + 400)  # device iterations x (accumulation x micro-batch + update)
    assert find_line(text, "micro-batch").split()[1:] == ["1,000", "cycles", *format_seconds(1000 / clock).split()]
    assert find_line(text, "weight update").split()[2:] == ["400", "cycles", *format_seconds(400 / clock).split()]
    assert find_line(text, "call ").split()[1:] == [f"{call:,}", "cycles", *format_seconds(call / clock).split()]


def test_throughput_counts_all_replicas() -> None:
    plan = make_small_plan()
    summary = summarise(plan)
    samples = 5 * 3 * 4 * 2  # micro-batch x device iterations x accumulation x replicas
    seconds = 3 * (4 * 1000 + 400) / plan.system.target.clock_hz
    assert summary.timing.samples_per_second == pytest.approx(samples / seconds)
    assert f"{samples / seconds:,.0f} samples/s on 2 replicas ({samples} samples a call)" in render_text(summary)


def test_shares_weigh_each_phase_by_how_often_it_runs() -> None:
    phases = {entry.name: entry.share for entry in summarise(make_small_plan()).phases}
    assert phases["forward"] == pytest.approx(12 * 1000 / (12 * 1000 + 3 * 400))
    assert phases["update"] == pytest.approx(3 * 400 / (12 * 1000 + 3 * 400))


def test_a_stream_that_runs_once_a_call_counts_once() -> None:
    build = PlanBuilder("stream", RunOptions(device_iterations=10), micro_batch=1)
    build.add_op("aten.mm.default", Family.MATMUL, Phase.FORWARD, "", cycles=1000)
    build.add_host_step("return the last result", 1 << 20)
    plan = build.build()
    host = plan.steps[-1].cycles
    once = dataclasses.replace(plan.steps[-1], per_call=True)
    plan = dataclasses.replace(plan, steps=(*plan.steps[:-1], once))
    kinds = {entry.name: entry for entry in summarise(plan).kinds}
    assert kinds["host"].call_cycles == pytest.approx(host)
    assert kinds["compute"].call_cycles == pytest.approx(10 * 1000)


def test_guessed_ops_are_listed_with_the_share_that_rests_on_them() -> None:
    text = render_text(summarise(make_cnn_plan()))
    plan = make_cnn_plan()
    share = plan.timing.guessed_cycles / plan.timing.call_cycles
    assert share > 0
    assert f"{format_share(share)} of the cycles of a call rest on guesses." in text
    assert "aten.mysterious.default (x1)" in text


def test_the_slowest_op_stands_first_with_its_module_and_line() -> None:
    summary = summarise(make_small_plan())
    assert [entry.op.op for entry in summary.slowest] == ["aten.mm.default", "aten.odd.default"]
    assert summary.slowest[0].share == pytest.approx(12_000 / 13_200)
    lines = render_text(summary).splitlines()
    first = lines[lines.index("Slowest ops") + 2]
    time = format_seconds(12_000 / 1.85e9).split()
    assert first.split() == ["90.9", "%", *time, "-", "mm", "forward", "layer", "model.py:3"]


def test_memory_of_the_fullest_tile_adds_up_to_its_peak() -> None:
    summary = summarise(make_bert_plan(rounds=1))
    assert sum(part.fullest_tile_bytes for part in summary.memory) == summary.fit.peak_bytes


def test_always_live_bytes_that_no_variable_explains_are_not_lost() -> None:
    plan = make_cnn_plan()
    memory = dataclasses.replace(plan.memory[0], always_live=plan.memory[0].always_live + 100)
    parts = {part.name: part for part in summarise(dataclasses.replace(plan, memory=(memory,))).memory}
    assert parts["other"].all_tiles_bytes == 100 * 1472
    assert parts["other"].fullest_tile_bytes == 100


def test_share_of_peak_follows_the_number_format_of_the_result() -> None:
    plan = make_cnn_plan()
    slow = summarise(plan).slowest[0]
    seconds = slow.op.cycles / plan.system.target.clock_hz
    assert slow.peak_share == pytest.approx(slow.op.flops / seconds / plan.system.target.peak_flops(2))


def test_a_plan_and_its_profile_have_the_same_summary() -> None:
    plan = make_cnn_plan()
    assert render_text(summarise(plan)) == render_text(summarise(build_profile(plan)))


def test_warnings_of_the_plan_are_told() -> None:
    plan = dataclasses.replace(make_cnn_plan(), warnings=("5 replicas need 5 IPUs.",))
    assert "Warning: 5 replicas need 5 IPUs." in render_text(summarise(plan))


def test_no_line_is_wider_than_a_terminal_can_show() -> None:
    assert max(len(line) for line in render_text(summarise(make_oversized_plan())).splitlines()) <= 140


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_bytes(0), "0 B"),
        (format_bytes(1023), "1023 B"),
        (format_bytes(1536), "1.50 KiB"),
        (format_bytes(624 * 1024), "624 KiB"),
        (format_bytes(918_528 * 1024), "897 MiB"),
        (format_seconds(0.0012), "1.20 ms"),
        (format_seconds(5e-9), "5 ns"),
        (format_seconds(0.0643), "64.3 ms"),
        (format_bytes_of(3693568, 603136), "3,607 of 589 KiB"),
        (format_bytes_of(3 << 20, 0), "3145728 of 0 B"),
        (format_share(0), "0 %"),
        (format_share(0.0001), "<0.1 %"),
        (format_share(0.123), "12.3 %"),
    ],
)
def test_numbers_are_written_for_people(text: str, expected: str) -> None:
    assert text == expected


def find_line(text: str, start: str) -> str:
    return next(line.strip() for line in text.splitlines() if line.strip().startswith(start))
