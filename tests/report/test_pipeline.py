"""Programs over several IPUs: their pipeline is stored, summed up by its own arithmetic, and told in text and JSON."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from pipelined_plan import make_pipelined_plan
from plan_factory import make_cnn_plan
from test_store import find_differences
from torch import nn

from openipu.capture import describe_optimizer, set_block
from openipu.errors import ProfileError
from openipu.graph import RunOptions, TensorLocation, TensorRole
from openipu.plan import Plan
from openipu.plan.pipeline import make_pipeline
from openipu.plan.types import PipelineStage
from openipu.report import build_profile, read_profile, render_text, summarise, to_json, write_profile
from openipu.report.perfetto.order import find_starts
from openipu.report.pipeline import PipelineSummary, summarise_pipeline
from openipu.session import plan_model


def make_stages(*places: tuple[int, float], training: bool = True) -> tuple[PipelineStage, ...]:
    """Stages from (IPU, cycles): in training the middle one does forward and backward."""
    last = len(places) // 2 if training else len(places) - 1
    return tuple(
        PipelineStage(index, ipu, index <= last, training and index >= last, cycles)
        for index, (ipu, cycles) in enumerate(places)
    )


def summarise_stages(*places: tuple[int, float], micro_batches: int, training: bool = True) -> PipelineSummary:
    pipeline = make_pipeline(make_stages(*places, training=training), micro_batches)
    record = build_profile(dataclasses.replace(make_cnn_plan(), pipeline=pipeline)).pipeline
    assert record is not None
    assert record.total_cycles == pipeline.total_cycles
    return summarise_pipeline(record)


@pytest.mark.parametrize("micro_batches", [1, 3, 16])
def test_a_pipeline_reads_back_as_it_was_written(micro_batches: int, tmp_path: Path) -> None:
    expected = build_profile(make_pipelined_plan(micro_batches=micro_batches))
    found = read_profile(write_profile(expected, tmp_path))
    assert expected.pipeline is not None
    assert len(expected.memory) == 4
    assert find_differences(expected, dataclasses.replace(found, system=expected.system)) == []


def test_a_real_plan_over_ipus_reads_back_with_its_options(tmp_path: Path) -> None:
    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for stage, layer in enumerate(self.layers):
                set_block(f"stage{stage}", stage, stage)
                x = torch.relu(layer(x))
            return nn.functional.mse_loss(x, torch.zeros_like(x))

    model = Chain()
    spec = describe_optimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), {id(p): n for n, p in model.named_parameters()}
    )
    location = (TensorRole.OPTIMIZER, TensorLocation(minimum_off_chip_elements=9))
    options = RunOptions(training=True, gradient_accumulation=8, locations=(location,))
    _, plan = plan_model(model, (torch.zeros(32, 64),), options=options, optimizer=spec, system="bow-pod16")
    expected = build_profile(plan)
    found = read_profile(write_profile(expected, tmp_path))
    assert find_differences(expected, dataclasses.replace(found, system=expected.system)) == []
    assert found.pipeline is not None
    assert [stage.ipu for stage in found.pipeline.stages] == [0, 1, 2, 1, 0]
    assert found.options["locations"][0][1]["minimum_off_chip_elements"] == 9
    summary = summarise(found)
    assert summary.pipeline is not None
    assert summary.timing.call_cycles == pytest.approx(summary.pipeline.total_cycles + summary.timing.update_cycles)


def test_a_program_without_stages_has_no_pipeline(tmp_path: Path) -> None:
    profile = read_profile(write_profile(make_cnn_plan(), tmp_path))
    assert profile.pipeline is None
    assert to_json(profile)["pipeline"] is None
    assert "Pipeline" not in render_text(summarise(profile))
    assert "Memory of each IPU" not in render_text(summarise(profile))


def test_stages_answer_questions_in_sql(tmp_path: Path) -> None:
    path = write_profile(make_pipelined_plan(), tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        busiest = connection.execute(
            "SELECT ipu FROM pipeline_stages GROUP BY ipu ORDER BY sum(cycles) DESC LIMIT 1"
        ).fetchone()[0]
        ticks = connection.execute("SELECT part, count(*) FROM pipeline_ticks GROUP BY part ORDER BY part").fetchall()
    assert busiest == 2
    assert ticks == [("drain", 6), ("fill", 6)]


def test_a_tick_of_an_unknown_part_is_called_damaged(tmp_path: Path) -> None:
    path = write_profile(make_pipelined_plan(), tmp_path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO pipeline VALUES (1, 1.0, 1)")
    with pytest.raises(ProfileError, match=r"damaged.*pipeline has 2 rows"):
        read_profile(path)


def test_bubbles_are_ticks_without_work_and_waits_for_the_slowest() -> None:
    # ticks: F0 | F0 FB1 | F0 FB1 B0 | F0 FB1 B0 | FB1 B0 | B0, of 3 + 10 + 10 + 10 + 10 + 5 cycles
    summary = summarise_stages((0, 3.0), (1, 10.0), (0, 5.0), micro_batches=4)
    first, second = summary.ipus
    assert summary.total_cycles == 48
    assert (first.busy_cycles, first.empty_cycles, first.waiting_cycles) == (32, 0, 7 + 2 + 2 + 5)
    assert (second.busy_cycles, second.empty_cycles, second.waiting_cycles) == (40, 3 + 5, 0)
    assert first.bubble_share == pytest.approx(16 / 48)
    assert summary.bubble_share == pytest.approx((16 / 48 + 8 / 48) / 2)


@pytest.mark.parametrize("micro_batches", [1, 2, 5, 200])
def test_busy_and_idle_cycles_of_every_ipu_add_up_to_the_whole(micro_batches: int) -> None:
    places = ((0, 4.0), (1, 9.0), (2, 13.0), (1, 11.0), (0, 7.0))
    summary = summarise_stages(*places, micro_batches=micro_batches)
    for load in summary.ipus:
        assert load.busy_cycles + load.empty_cycles + load.waiting_cycles == pytest.approx(summary.total_cycles)


def test_the_slowest_stage_is_named_with_what_evening_out_would_save() -> None:
    # inference: ticks of 14 from the third on, where even stages would take (8 + 8 + 14) / 3 = 10
    summary = summarise_stages((0, 8.0), (1, 8.0), (2, 14.0), micro_batches=98, training=False)
    saving = 1 - 100 * 10 / (2 * 8 + 98 * 14)
    assert summary.balanced_saving == pytest.approx(saving)
    assert summary.finding == (
        f"Slowest is stage 2 on IPU 2, at 1.40x the mean of the IPUs: "
        f"moving layers away from it would save up to {saving * 100:.0f} % of the time."
    )


def test_even_ipus_are_called_even() -> None:
    summary = summarise_stages((0, 10.0), (1, 10.0), micro_batches=9, training=False)
    assert summary.balanced_saving == 0
    assert summary.finding == "The IPUs are even: slowest is stage 0 on IPU 0, at 1.00x the mean of the IPUs."


def test_ipus_that_tie_are_named_together() -> None:
    summary = summarise_stages((0, 10.0), (1, 20.0), (2, 20.0), (3, 19.8), micro_batches=9, training=False)
    assert [load.ipu for load in summary.pace_setters] == [1, 2, 3]  # 19.8 is 99 % of 20
    assert summary.finding.startswith("Slowest are IPUs 1, 2 and 3, which tie, at 1.15x the mean of the IPUs")


def test_two_stages_on_one_ipu_are_named_together() -> None:
    summary = summarise_stages((0, 10.0), (1, 12.0), (0, 10.0), micro_batches=9, training=False)
    assert summary.slowest_name == "stages 0 and 2 on IPU 0"
    assert summary.finding.startswith("Slowest are stages 0 and 2 on IPU 0, at 1.25x")


def test_too_few_micro_batches_are_said() -> None:
    summary = summarise_stages((0, 3.0), (1, 10.0), (0, 5.0), micro_batches=2)
    assert summary.finding.endswith("With 2 micro-batches for 3 stages in both directions the pipeline is never full.")


def test_the_text_tells_stages_ticks_bubbles_and_each_ipus_peak() -> None:
    plan = make_pipelined_plan()
    summary = summarise(plan)
    text = render_text(summary)
    assert summary.pipeline is not None
    assert "Pipeline: 4 stages on 4 IPUs, 16 micro-batches in 22 ticks (6 fill, 10 steady, 6 drain)" in text
    assert f"bubbles: {summary.pipeline.bubble_share * 100:.1f} % of the IPUs' time" in text
    assert "Slowest is stage 2 on IPU 2" in text
    lines = text.splitlines()
    start = lines.index("Memory of each IPU") + 2
    assert [line.split()[0] for line in lines[start : start + 4]] == ["0", "1", "2", "3"]
    assert all(line.endswith("fits") for line in lines[start : start + 4])
    assert max(map(len, lines)) <= 140


def test_an_ipu_that_is_too_full_is_named_while_others_fit() -> None:
    plan = make_pipelined_plan(width=11_000)
    summary = summarise(plan)
    assert [entry.fits for entry in summary.ipus] == [True, True, True, False]
    assert sum(entry.bytes_over for entry in summary.ipus) == plan.fit.bytes_over
    assert sum(entry.tiles_over for entry in summary.ipus) == plan.fit.tiles_over
    assert "over on 1,472 tiles" in render_text(summary)


def test_json_tells_the_pipeline_and_the_verdict_on_each_ipu() -> None:
    plan = make_pipelined_plan()
    document = json.loads(json.dumps(to_json(build_profile(plan)), allow_nan=False))
    pipeline = document["pipeline"]
    assert [stage["stage"] for stage in pipeline["stages"]] == [0, 1, 2, 3, 2, 1, 0]
    assert sum(stage["share"] for stage in pipeline["stages"]) == pytest.approx(1)
    assert pipeline["ticks"] == {"fill": 6, "steady": 10, "drain": 6, "all": 22}
    assert plan.pipeline is not None
    assert pipeline["total_cycles"] == plan.pipeline.total_cycles
    assert pipeline["slowest"]["ipu"] == 2
    peaks = [entry["peak_bytes"] for entry in document["fit"]["ipus"]]
    assert peaks == [int(memory.peak.max()) for memory in plan.memory]
    assert document["guesses"]["share_of_call_cycles"] <= 1


def test_shares_of_several_ipus_are_of_the_cycles_in_which_they_work() -> None:
    plan: Plan = make_pipelined_plan()
    summary = summarise(plan)
    work = sum(step.cycles * (1 if step.phase == "update" else 16) for step in plan.steps)
    assert sum(entry.call_cycles for entry in summary.kinds) == pytest.approx(work)
    assert "the IPUs are busy with compute" in render_text(summary)


def test_exchanges_of_an_update_take_turns_where_its_work_runs_side_by_side() -> None:
    """Two IPUs, a stage each: an exchange of 10 and 20 cycles, then work of 7 and 5."""
    profile = build_profile(make_pipelined_plan())
    count = 6
    numbers = np.zeros(count, dtype=np.int64)
    steps = dataclasses.replace(
        profile.steps,
        kind=("compute", "compute", "link", "link", "compute", "compute"),
        phase=("forward", "forward", "update", "update", "update", "update"),
        cycles=np.array([100.0, 50.0, 10.0, 20.0, 7.0, 5.0]),
        ipu=np.array([0, 1, 0, 1, 0, 1]),
        stage=np.array([0, 1, 0, 0, 0, 0]),
        per_call=numbers,
    )
    starts = find_starts(dataclasses.replace(profile, steps=steps))
    # forward ends at 150; the second exchange waits for the first, and each IPU's work for its own
    assert starts.tolist() == [0, 100, 150, 160, 160, 180]
