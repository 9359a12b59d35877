"""Rows of inference are predicted from the settings and the load of the benchmark that was published with them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from openipu.models.text.encoders import Gelu
from openipu.validation.figures import FigureRow, find_system
from openipu.validation.workloads.programs import capture_model
from openipu.validation.workloads.recognise import recognise_model
from openipu.validation.workloads.served import (
    QUESTIONS_PER_ROW,
    QUESTIONS_PER_SHORT_BATCH,
    SENTENCES_PER_ROW,
    SERVED,
    find_served,
)
from openipu.validation.workloads.setups import choose_inference, count_per_pack, follow_served


def make_row(workload: str, batch: int, value: float | None = None, **params: Any) -> FigureRow:
    params = {"dtype": "fp16", "batch": batch, **params}
    return FigureRow("X-1", "e2e", "C600 (IPU21)", 1, workload, params, "throughput", "samples/s", value)


def pack(mean: int, longest: int, rows: int, most: int) -> float:
    """Sequences in a row: each goes to the first row with room, and what finds none opens the next batch."""
    draw, placed, held, batches = random.Random(1), 0, 0, 1000
    for _ in range(batches):
        free, count = [longest] * rows, 0
        while count < most:
            length = held or min(longest, max(1, int(draw.gauss(mean, mean))))
            held = 0
            row = next((index for index, room in enumerate(free) if room >= length), None)
            if row is None:
                held = length
                break
            free[row] -= length
            count += 1
        placed += count
    return placed / batches / rows


@pytest.mark.parametrize(
    ("load", "stated"),
    [
        ((172, 384, 40, 100), QUESTIONS_PER_ROW),
        ((172, 384, 45, 120), QUESTIONS_PER_ROW),
        ((172, 384, 10, 20), QUESTIONS_PER_SHORT_BATCH),
        ((64, 128, 16, 64), SENTENCES_PER_ROW),
    ],
)
def test_the_lengths_that_a_benchmark_draws_give_the_stated_sequences_in_a_row(
    load: tuple[int, int, int, int], stated: float
) -> None:
    assert pack(*load) == pytest.approx(stated, abs=0.02)


@pytest.mark.parametrize(
    ("workload", "batch", "proportion", "io_tiles", "in_flight"),
    [
        ("swin-large 384px inference", 4, 0.2, 0, 4.0),
        ("roformer SL1024 CAIL2019 inference", 12, 0.6, 0, 1.0),
        ("wide&deep inference", 20000, 0.6, 32, 5.0),
        ("Wide&Deep inference", 8000, 1.0, 128, 0.0),  # that benchmark counts no requests
        ("bert-base SL384 SQuAD inference", 40, 0.4, 0, 140 / (40 * QUESTIONS_PER_ROW)),  # 3.5 x 40 single sequences
    ],
)
def test_a_row_is_compiled_and_loaded_as_its_benchmark_says(
    workload: str, batch: int, proportion: float, io_tiles: int, in_flight: float
) -> None:
    row = make_row(workload, batch)
    found = find_served(row)
    assert found is not None
    assert (found.proportion, found.io_tiles) == (proportion, io_tiles)
    assert found.count_in_flight(row) == pytest.approx(in_flight)


def test_settings_reach_the_plan_and_do_not_depend_on_the_published_value() -> None:
    for value in (None, 1.0, 1e9):
        row = make_row("Wide&Deep inference", 8000, value)
        setup, measured = choose_inference(row, recognise_model(row), find_system(row), 8000)
        assert (setup.micro_batch, setup.proportions, setup.io_tiles, setup.wide_loads) == (8000, (1.0,), 128, True)
        assert measured.fits


def test_a_converter_s_passes_change_the_model() -> None:
    row = make_row("BERT-Base SL128 inference", 128)
    spec = follow_served(row, recognise_model(row))
    assert dict(spec.details)["head"] == "span"
    assert (spec.detail("fused_attention", 0), spec.detail("float_parts", 0)) == (1, 1)
    image = make_row("ViT inference", 8)
    assert follow_served(image, recognise_model(image)).gelu is Gelu.ERROR_FUNCTION
    packed = make_row("BERT-Base SL128 packed inference", 16)
    assert count_per_pack(packed, recognise_model(packed)) == SENTENCES_PER_ROW


def test_attention_over_odd_windows_is_filled_up_to_whole_blocks() -> None:
    """49 points of a window become 64 in the products, so that no coefficients are ordered element by element."""
    row = make_row("Swin-Tiny inference", 1)
    spec = follow_served(row, recognise_model(row))
    widths = {
        node.meta["val"].shape[-1]
        for node in capture_model(spec, 1, False).micro.module.graph.nodes
        if "_softmax" in str(node.target)
    }
    assert widths == {64}


def test_the_converter_s_own_table_is_not_taken_for_a_benchmark() -> None:
    assert find_served(make_row("BERT-Base SL256 inference", 8, data="host")) is None
    assert len({(entry.workload, entry.batches, entry.form) for entry in SERVED}) == len(SERVED)


def test_training_of_a_served_model_is_not_taken_for_its_benchmark() -> None:
    served, trained = make_row("Swin-Tiny inference", 24), make_row("Swin-Tiny 224 pre-training", 8)
    assert find_served(served) is not None
    assert find_served(trained) is None
    assert follow_served(trained, recognise_model(trained)) == recognise_model(trained)
