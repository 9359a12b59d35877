"""Insights: each rule speaks where its case is there, with the arithmetic of the profile, and is silent elsewhere."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from pipelined_plan import make_pipelined_plan
from plan_factory import PlanBuilder, make_cnn_plan, make_oversized_plan

from openipu.graph import Phase, RunOptions
from openipu.machine import Provenance
from openipu.ops.cost import Family
from openipu.plan.types import Plan, VariableKind
from openipu.report import build_profile, find_insights, render_insights, to_json
from openipu.report.insights import Finding, Level
from openipu.report.units import format_share, format_tile_bytes


def find(plan: Plan) -> dict[str, Finding]:
    return {finding.rule: finding for finding in find_insights(build_profile(plan))}


def make_plan(**options: int) -> PlanBuilder:
    return PlanBuilder("small", RunOptions(**options), 4)  # type: ignore[arg-type]


def test_a_program_that_does_not_fit_is_a_problem_that_names_the_tensors_of_its_fullest_tile() -> None:
    plan = make_oversized_plan()
    finding = find_insights(build_profile(plan))[0]
    over = plan.fit.peak_bytes - plan.fit.limit_bytes
    assert (finding.rule, finding.level) == ("fullest-tile", Level.PROBLEM)
    assert finding.title == f"Does not fit: the fullest tile needs {format_tile_bytes(over)} more than it has"
    assert finding.value == plan.fit.peak_bytes
    assert [entry.name for entry in finding.evidence] == [culprit.name for culprit in plan.fit.culprits[:5]]
    assert finding.evidence[0].line == str(plan.fit.culprits[0].line)
    assert finding.link == {"view": "memory", "tile": plan.fit.peak_tile}
    assert "micro-batch" in finding.remedy  # activations fill it


def test_a_program_with_room_gets_a_note_and_no_remedy_for_a_problem_it_does_not_have() -> None:
    finding = find(make_cnn_plan())["fullest-tile"]
    assert finding.level is Level.NOTE
    assert finding.remedy.startswith("There is room")


def test_a_tensor_on_few_tiles_makes_an_uneven_ipu() -> None:
    build = make_plan()
    op = build.add_op("aten.relu.default", Family.ELEMENTWISE, Phase.FORWARD, "m", cycles=1000)
    build.add_variable("lumpy", VariableKind.PARAMETER, (16, 1 << 18), dtype="float16", tiles=16)  # 512 KiB each
    build.add_variable("even", VariableKind.ACTIVATION, (1472, 64), life=(0, 0), op=op)
    finding = find(build.build())["uneven-tiles"]
    peak = build_profile(build.build()).memory[0].peak
    assert finding.value == pytest.approx(peak.max() / peak.mean())
    assert finding.evidence[0].name == "lumpy"
    assert "lumpy (on 16 tiles)" in finding.cause


def test_exchange_that_takes_most_of_a_call_is_a_problem_with_the_ops_that_move_most() -> None:
    build = make_plan()
    moved = 1472 * 4 * 90_000  # 4 bytes a cycle and tile: 90,000 cycles
    build.add_op("aten.cat.default", Family.LAYOUT, Phase.FORWARD, "slow", cycles=100, moved_bytes=moved, line=3)
    build.add_op("aten.relu.default", Family.ELEMENTWISE, Phase.FORWARD, "quick", cycles=10_000)
    plan = build.build()
    finding = find(plan)["exchange-bound"]
    exchange = sum(step.cycles for step in plan.steps if step.kind.value == "exchange")
    share = exchange / sum(step.cycles for step in plan.steps)
    assert finding.value == pytest.approx(share)
    assert finding.level is Level.PROBLEM
    assert [entry.name for entry in finding.evidence] == ["cat in slow"]
    assert finding.evidence[0].figure == f"{format_share(share)} in exchange"
    assert finding.evidence[0].link == {"view": "trace", "op": 0}


def test_matmuls_far_below_peak_are_found_with_their_mean_weighted_by_cycles() -> None:
    build = make_plan()
    peak = build.system.target.peak_flops(2) / build.system.target.clock_hz  # FLOPs a cycle
    for module, reached in (("poor", 0.05), ("good", 0.8)):
        op = build.add_op(
            "aten.mm.default", Family.MATMUL, Phase.FORWARD, module, cycles=10_000, flops=int(peak * 10_000 * reached)
        )
        build.add_variable(f"{module}.out", VariableKind.ACTIVATION, (4, 4), life=(0, 1), op=op)
    finding = find(build.build())["poor-matrix-use"]
    assert finding.value == pytest.approx(0.05, rel=1e-3)
    assert finding.title.startswith("Matmuls and convolutions that take 50.0 % of a call reach 5.0 % of peak")
    assert [entry.name for entry in finding.evidence] == ["mm in poor"]


def test_float_products_promise_what_half_would_save() -> None:
    build = make_plan()
    op = build.add_op("aten.mm.default", Family.MATMUL, Phase.FORWARD, "m", cycles=10_000, flops=1 << 30)
    build.add_variable("out", VariableKind.ACTIVATION, (4, 4), dtype="float32", life=(0, 0), op=op)
    finding = find(build.build())["float-products"]
    assert finding.value == 1.0
    assert "up to 75.0 % of the call" in finding.remedy  # a quarter of the rate: 1 - 1/4


def test_host_streams_that_nothing_hides_are_found() -> None:
    build = make_plan(device_iterations=3)
    build.add_host_step("read input", 10_000_000)
    build.add_op("aten.relu.default", Family.ELEMENTWISE, Phase.FORWARD, "m", cycles=1000)
    finding = find(build.build())["host-bound"]
    cycles = 10_000_000 / (build.system.host_bytes_per_second / build.system.target.clock_hz)
    assert finding.value == pytest.approx(cycles / (cycles + 1000))
    assert "10,000,000 bytes" in finding.cause
    assert "(now 3)" in finding.remedy


def test_updates_that_weigh_ask_for_more_accumulation() -> None:
    build = make_plan(training=True, gradient_accumulation=2)
    build.add_op("aten.relu.default", Family.ELEMENTWISE, Phase.FORWARD, "m", cycles=1000)
    build.add_op("aten.add.Tensor", Family.OPTIMIZER, Phase.UPDATE, "m", cycles=2000)
    finding = find(build.build())["much-updating"]
    assert finding.value == pytest.approx(2000 / (2 * 1000 + 2000))
    assert "accumulation over 4 would bring that to 33.3 %" in finding.remedy  # 2000 / (4 x 1000 + 2000)


def test_bubbles_tell_what_twice_the_micro_batches_would_do() -> None:
    found = find(make_pipelined_plan(cycles=(10_000, 10_000, 10_000, 10_000), micro_batches=4))
    bubbles = found["pipeline-bubbles"]
    more = find(make_pipelined_plan(cycles=(10_000, 10_000, 10_000, 10_000), micro_batches=8))["pipeline-bubbles"]
    assert bubbles.value > more.value > 0
    pipeline = make_pipelined_plan(cycles=(10_000, 10_000, 10_000, 10_000), micro_batches=4).pipeline
    assert pipeline is not None
    loads = [sum(stage.cycles for stage in pipeline.stages if stage.ipu == ipu) for ipu in range(4)]
    assert bubbles.value == pytest.approx(1 - 4 * max(loads) / pipeline.total_cycles)
    assert f"would bring that to {format_share(more.value)}" in bubbles.remedy
    assert bubbles.remedy.startswith("8 micro-batches between two flushes")
    assert "slow-stage" not in found or found["slow-stage"].value < 1.5


def test_the_ipu_that_sets_the_pace_is_named_with_where_to_move_layers() -> None:
    plan = make_pipelined_plan(micro_batches=64)
    finding = find(plan)["slow-stage"]
    assert plan.pipeline is not None
    loads = [sum(stage.cycles for stage in plan.pipeline.stages if stage.ipu == ipu) for ipu in range(4)]
    assert finding.title == f"IPU 2 sets the pace at {loads[2] / (sum(loads) / 4):.2f}x the mean"
    assert finding.value == pytest.approx(max(loads) * 4 / sum(loads))
    assert "from IPU 2 to IPU 1" in finding.remedy or "from IPU 2 to IPU 3" in finding.remedy


def test_a_pipeline_that_is_full_most_of_the_time_still_tells_what_filling_it_costs() -> None:
    """Stages that tie: no IPU is ever without work in the ticks that fill, and all of them wait there."""
    plan = make_pipelined_plan(cycles=(10_000, 30_000, 30_000, 30_000), micro_batches=16)
    assert plan.pipeline is not None
    lost = 1 - 16 * max(stage.cycles for stage in plan.pipeline.stages) / plan.pipeline.total_cycles
    assert find(plan)["pipeline-bubbles"].value == pytest.approx(lost, abs=0.2)
    assert "pipeline-bubbles" not in find(
        make_pipelined_plan(cycles=(10_000, 30_000, 30_000, 30_000), micro_batches=512)
    )


def test_ipus_that_tie_are_named_together_and_layers_go_only_where_there_is_room() -> None:
    cycles = (10_000, 50_000, 50_000, 50_000)
    profile = build_profile(make_pipelined_plan(cycles=cycles, micro_batches=64))
    finding = next(finding for finding in find_insights(profile) if finding.rule == "slow-stage")
    assert finding.title.startswith("IPUs 1, 2 and 3 set the pace at ")
    assert finding.remedy.startswith("Move layers from IPUs 1, 2 and 3 to IPU 0, whose fullest tile is ")
    limit = profile.fit.limit_bytes
    full = dataclasses.replace(profile.memory[0], always_live=np.full(1472, int(0.97 * limit)))
    crowded = dataclasses.replace(profile, memory=(full, *profile.memory[1:]))
    stuck = next(finding for finding in find_insights(crowded) if finding.rule == "slow-stage")
    assert stuck.remedy.startswith(
        "Layers of IPUs 1, 2 and 3 cannot move to IPU 0 as the plan stands: it is nearly full"
    )


def test_copies_between_ipus_that_weigh_are_found() -> None:
    build = make_plan()
    build.add_copy(50_000_000, Phase.FORWARD)
    build.add_op("aten.relu.default", Family.ELEMENTWISE, Phase.FORWARD, "m", cycles=1000)
    finding = find(build.build())["link-bound"]
    cycles = 50_000_000 / (build.system.ipu_link_bytes_per_second / build.system.target.clock_hz)
    assert finding.value == pytest.approx(cycles / (cycles + 1000))
    assert "50,000,000 bytes go over the links in 1 steps of one execution" in finding.cause


def test_guessed_costs_are_a_note() -> None:
    build = make_plan()
    build.add_op(
        "aten.odd.default", Family.UNKNOWN, Phase.FORWARD, "m", cycles=300, provenance=Provenance.GUESSED, line=7
    )
    build.add_op("aten.relu.default", Family.ELEMENTWISE, Phase.FORWARD, "m", cycles=700)
    finding = find(build.build())["guessed-costs"]
    assert (finding.level, finding.value) == (Level.NOTE, 0.3)
    assert finding.evidence[0].line == "/home/ada/project/model.py:7 in forward"


def test_few_tiles_and_many_syncs_are_found() -> None:
    build = make_plan()
    for turn in range(4):
        build.add_op("aten.sum.default", Family.REDUCTION, Phase.FORWARD, f"m{turn}", cycles=300, moved_bytes=1472 * 4)
    plan = build.build()
    narrow = tuple(dataclasses.replace(step, tiles=8) if step.kind.value == "compute" else step for step in plan.steps)
    found = find(dataclasses.replace(plan, steps=narrow))
    assert found["many-syncs"].value == pytest.approx(126 / (300 + 126 + 1), rel=0.01)
    assert found["idle-tiles"].value == pytest.approx(300 / (300 + 126 + 1), rel=0.01)
    assert "4 steps use 8 of 1,472 tiles" in found["idle-tiles"].cause


def test_worst_findings_come_first_and_leave_as_json_and_text() -> None:
    profile = build_profile(make_oversized_plan())
    findings = find_insights(profile)
    levels = [list(Level).index(finding.level) for finding in findings]
    assert levels == sorted(levels)
    document = json.loads(json.dumps(to_json(profile)))
    assert [entry["title"] for entry in document["insights"]] == [finding.title for finding in findings]
    text = render_insights(findings)
    assert text.startswith("Insights\n  problem: Does not fit")
    assert max(len(line) for line in text.splitlines()) <= 110
    assert render_insights(()) == ""


def test_an_empty_program_has_no_insights_on_time() -> None:
    plan = make_cnn_plan()
    nothing = np.zeros(0, dtype=np.int64)
    memory = dataclasses.replace(plan.memory[0], live_by_step=nothing, fullest_by_step=nothing)
    empty = dataclasses.replace(plan, ops=(), steps=(), variables=(), memory=(memory,))
    assert {finding.topic for finding in find_insights(build_profile(empty))} == {"memory"}
