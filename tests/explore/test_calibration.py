"""The script that fits the free constants finds the constants that figures were made with."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pytest

from openipu.machine import list_targets
from openipu.validation.figures import FigureRow
from openipu.validation.figures.topics import DENSE_MATMUL

SCRIPT = Path(__file__).parents[2] / "tools" / "calibrate.py"


@pytest.fixture(scope="module")
def calibrate():
    spec = importlib.util.spec_from_file_location("calibrate", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def make_rows(calibrate, target, sizes):
    """Figures as a machine with the constants of `target` would give them."""
    rows = []
    for number, (m, n) in enumerate(sizes):
        params = {"m": m, "k": m, "n": n, "dtype": "FP16"}
        row = FigureRow(f"T-{number:03}", "micro", "bow-2000", 1, "dense matmul", params, "throughput", "TFLOPS", 1.0)
        cycles = calibrate.total_cycles(calibrate.price_matmul(row, target), target)
        rows.append(dataclasses.replace(row, value=2 * m * m * n / target.seconds(cycles) / 1e12))
    return rows


def test_the_launch_that_figures_were_made_with_is_found_again(calibrate):
    bow = list_targets()["bow"]
    made_with = dataclasses.replace(bow, phase_launch_cycles=700.0)
    rows = make_rows(calibrate, made_with, [(256, 16), (256, 64), (512, 16), (512, 64), (512, 256), (1024, 16)])
    fitted = calibrate.fit_launch(rows, bow, calibrate.price_matmul, with_scale=False)
    assert fitted.phase_launch_cycles == pytest.approx(700, abs=2)
    errors = calibrate.log_errors(calibrate.measure(rows, fitted, calibrate.price_matmul), fitted)
    assert calibrate.describe_errors(errors)["p90"] < 0.005


def test_the_compute_scale_of_an_era_is_found_with_the_launch(calibrate):
    bow = list_targets()["bow"]
    made_with = dataclasses.replace(bow, phase_launch_cycles=300.0, compute_scale=1.25)
    rows = make_rows(calibrate, made_with, [(256, 16), (256, 256), (512, 16), (512, 256), (1024, 16), (1024, 512)])
    fitted = calibrate.fit_launch(rows, bow, calibrate.price_matmul, with_scale=True)
    assert fitted.compute_scale == pytest.approx(1.25, abs=0.03)
    assert fitted.phase_launch_cycles == pytest.approx(300, abs=40)


def test_every_second_row_is_held_out(calibrate):
    bow = list_targets()["bow"]
    rows = make_rows(calibrate, bow, [(64, 8), (64, 16), (64, 24), (64, 32), (64, 40)])
    fitted, held_out = calibrate.pick(rows, DENSE_MATMUL)
    assert [row.id for row in fitted] == ["T-000", "T-002", "T-004"]
    assert [row.id for row in held_out] == ["T-001", "T-003"]
