"""Fits the few free constants of the cost model, and says what each fit leaves.

In: a file of published figures. Out: a table of constants (fitted, in the catalog) and of errors on fitted and held-out
rows; `--json` writes the same. Nothing is written into the catalog: a person copies a constant, with its source.

    python tools/calibrate.py figures.csv

Which rows are fitted: of every kind, sorted by id, each second one. The others are held out, and only score.
A constant is fitted by least squares of log errors with the chosen plans held fixed, then everything is planned again
with the new constant, three times over. No row has a constant of its own.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openipu.machine import Target, estimate_fit_probability
from openipu.machine.margin import MARGIN_SPREAD
from openipu.ops.cost import CostContext, OpCost, StepKind
from openipu.ops.linear import Convolution, cost_convolution, cost_matmul
from openipu.ops.phases import count_exchange_phases, total_cycles
from openipu.validation.figures import FigureRow, find_system, predict_row, read_rows, score_answer
from openipu.validation.figures.contradiction import find_contradicted
from openipu.validation.figures.micro.matmul import count_convolution_flops, read_convolution
from openipu.validation.figures.micro.programs import sums_in_half
from openipu.validation.figures.topics import (
    ALL,
    DENSE_CONVOLUTION,
    DENSE_MATMUL,
    NARROW_CONVOLUTION,
    Topic,
    find_topic,
)

ROUNDS = 3
Price = Callable[[FigureRow, Target], OpCost]


@dataclasses.dataclass(frozen=True)
class Case:
    """One measured op: its cost at the present constants, and what was measured."""

    row: FigureRow
    cost: OpCost
    measured_cycles: float

    def predict(self, target: Target) -> float:
        return total_cycles(self.cost, target)


def pick(rows: Sequence[FigureRow], topic: Topic) -> tuple[list[FigureRow], list[FigureRow]]:
    """Fitted and held-out rows of one kind: every second one."""
    found = sorted((row for row in rows if find_topic(row) is topic and row.value), key=lambda row: row.id)
    return found[::2], found[1::2]


def price_convolution(row: FigureRow, target: Target) -> OpCost:
    sizes = read_convolution(row)
    kernel, stride, groups = sizes["kernel"], sizes["stride"], sizes["groups"]
    size = (sizes["field_size"] + 2 * (kernel // 2) - kernel) // stride + 1
    channels = sizes["in_channels"] // groups, sizes["out_channels"] // groups
    problem = Convolution(groups, sizes["batch"], size, size, kernel, kernel, *channels, stride, stride)
    return cost_convolution(problem, CostContext(target, target.tiles, half_partials=sums_in_half(row.sdk, target)))


def price_matmul(row: FigureRow, target: Target) -> OpCost:
    half = str(row.params["dtype"]).upper() == "FP16"
    context = CostContext(target, target.tiles, half_partials=half)
    sizes = {"rows": row.read_size("n"), "inner": row.read_size("k"), "columns": row.read_size("m")}
    return cost_matmul(batches=1, **sizes, half=half, context=context)


def count_flops(row: FigureRow) -> float:
    if "cin" in row.params:
        return float(count_convolution_flops(read_convolution(row)))
    return 2.0 * row.read_size("m") * row.read_size("k") * row.read_size("n")


def measure(rows: Sequence[FigureRow], target: Target, price: Price) -> list[Case]:
    """Plan every row on `target`."""
    return [
        Case(row, price(row, target), count_flops(row) / (row.value * 1e12) * target.clock_hz)  # type: ignore[operator]
        for row in rows
    ]


def log_errors(cases: Sequence[Case], target: Target) -> np.ndarray:
    """ln(predicted time / measured time)."""
    return np.array([math.log(case.predict(target) / case.measured_cycles) for case in cases])


def fit_launch(rows: Sequence[FigureRow], target: Target, price: Price, *, with_scale: bool) -> Target:
    """The launch of a phase, and with it the compute scale of the era where that is wanted."""
    for _ in range(ROUNDS):
        cases = measure(rows, target, price)
        phases = np.array([count_exchange_phases(case.cost) for case in cases], dtype=float)
        compute = np.array([_add_up(case.cost, StepKind.COMPUTE) for case in cases]) / target.compute_scale
        fixed = np.array([_add_up(case.cost, StepKind.EXCHANGE) for case in cases])
        wanted = np.array([case.measured_cycles for case in cases])
        scales = np.linspace(0.9, 1.5, 61) if with_scale else np.array([target.compute_scale])
        launches = np.arange(100, 801, 1.0)
        best = min(
            (float((np.log((scale * compute + launch * phases + fixed) / wanted) ** 2).sum()), launch, scale)
            for scale in scales
            for launch in launches
        )
        target = dataclasses.replace(target, phase_launch_cycles=best[1], compute_scale=best[2])
    return target


def _add_up(cost: OpCost, kind: StepKind) -> float:
    return sum(step.total_cycles for step in cost.steps if step.kind is kind)


def fit_few_channels(rows: Sequence[FigureRow], target: Target) -> float:
    """How much slower images of a few channels are: the median over the rows without groups."""
    plain = [row for row in rows if row.read_size("groups", 1) == 1]
    errors = log_errors(measure(plain, target, price_convolution), target)
    return target.few_channel_scale * math.exp(-float(np.median(errors)))


def describe_errors(errors: np.ndarray) -> dict[str, float]:
    size = np.abs(errors)
    return {
        "rows": len(size),
        "median": float(np.median(size)),
        "p90": float(np.percentile(size, 90)),
        "bias": float(errors.mean()),
    }


def fit_machines(rows: Sequence[FigureRow]) -> dict[str, Any]:
    """Constants of Mk1 from its convolutions, and the launch of Bow from dense products, both ways."""
    fitted, held = pick(rows, DENSE_CONVOLUTION)
    mk1 = find_system(fitted[0]).target
    new_mk1 = fit_launch(fitted, mk1, price_convolution, with_scale=True)
    bow_fitted, bow_held = pick([row for row in rows if row.params.get("m")], DENSE_MATMUL)
    bow = find_system(bow_fitted[0]).target
    new_bow = fit_launch(bow_fitted, bow, price_matmul, with_scale=False)
    from_mk1 = dataclasses.replace(bow, phase_launch_cycles=new_mk1.phase_launch_cycles)
    bow_rows = [*bow_fitted, *bow_held]
    return {
        "constants": {
            "Mk1 phase launch": [new_mk1.phase_launch_cycles, mk1.phase_launch_cycles],
            "Mk1 compute scale": [round(new_mk1.compute_scale, 3), mk1.compute_scale],
            "Mk1 few-channel scale": [
                round(fit_few_channels(pick(rows, NARROW_CONVOLUTION)[0], mk1), 2),
                mk1.few_channel_scale,
            ],
            "Bow phase launch": [new_bow.phase_launch_cycles, bow.phase_launch_cycles],
        },
        "errors": {
            "Mk1 convolutions, fitted": describe_errors(
                log_errors(measure(fitted, new_mk1, price_convolution), new_mk1)
            ),
            "Mk1 convolutions, held out": describe_errors(
                log_errors(measure(held, new_mk1, price_convolution), new_mk1)
            ),
            "Mk1 convolutions, catalog": describe_errors(
                log_errors(measure([*fitted, *held], mk1, price_convolution), mk1)
            ),
            "Bow products, fitted": describe_errors(log_errors(measure(bow_fitted, new_bow, price_matmul), new_bow)),
            "Bow products, held out": describe_errors(log_errors(measure(bow_held, new_bow, price_matmul), new_bow)),
            "Bow products, launch of Mk1": describe_errors(
                log_errors(measure(bow_rows, from_mk1, price_matmul), from_mk1)
            ),
            "Bow products, catalog": describe_errors(log_errors(measure(bow_rows, bow, price_matmul), bow)),
        },
    }


def measure_spreads(rows: Sequence[FigureRow]) -> dict[str, Any]:
    """The spread that nine of ten fitted rows lie within, and how many held-out rows lie within it too."""
    found: dict[str, Any] = {}
    for topic in ALL:
        halves = [
            np.array([abs(score.log_error) for score in map(_score, part) if score.log_error is not None])
            for part in pick(rows, topic)
        ]
        if all(len(part) for part in halves):
            spread = float(np.percentile(halves[0], 90))
            found[topic.name] = {
                "fitted rows": len(halves[0]),
                "spread": round(spread, 3),
                "held-out rows": len(halves[1]),
                "of them inside": round(float((halves[1] <= spread).mean()), 3),
            }
    return found


def _score(row: FigureRow) -> Any:
    return score_answer(predict_row(row))


def fit_gap(rows: Sequence[FigureRow]) -> dict[str, Any]:
    """What a tile of Mk1 has for a program, and how sure a verdict is.

    In: what ran and blanks, those left out that a larger program contradicts. Out: the limit that best tells one from
    the other, fitted on every second mark; and the spread of the margin around the catalog's, on either half.
    """
    marks = [row for row in rows if row.workload.startswith("conv forward")]
    left_out = find_contradicted(marks)
    clear = sorted((row for row in marks if row.id not in left_out), key=lambda row: row.id)
    limit = find_system(marks[0]).target.usable_tile_bytes
    peaks = [(not row.asks_fit, _find_peak(row)) for row in clear]
    halves = peaks[::2], peaks[1::2]
    best = max((_balance(halves[0], kib * 1024), kib) for kib in range(140, 249, 4))
    spread = fit_spread(halves[0], limit)
    return {
        "clear marks": len(clear),
        "blanks among them": sum(not ran for ran, _ in peaks),
        "best limit on every second one, KiB": best[1],
        "balanced accuracy there": round(best[0], 3),
        "balanced accuracy of that on those held out": round(_balance(halves[1], best[1] * 1024), 3),
        "limit in the catalog, KiB": limit / 1024,
        "balanced accuracy of the catalog": round(_balance(peaks, limit), 3),
        "balanced accuracy of the catalog on those held out": round(_balance(halves[1], limit), 3),
        "spread of the margin, fitted": spread,
        "spread of the margin, held out": fit_spread(halves[1], limit),
        "spread in use": MARGIN_SPREAD,
        "Brier score of those held out": round(_score_spread(halves[1], limit, MARGIN_SPREAD), 4),
        "reliability, all marks": list_reliability(peaks, limit),
    }


def fit_spread(peaks: Sequence[tuple[bool, float]], limit: float) -> float:
    """The spread that makes the marks most likely, what ran and what did not weighed alike."""
    return min((_find_surprise(peaks, limit, spread / 200), spread / 200) for spread in range(4, 81))[1]


def _find_surprise(peaks: Sequence[tuple[bool, float]], limit: float, spread: float) -> float:
    found: dict[bool, list[float]] = {True: [], False: []}
    for ran, peak in peaks:
        distance = math.log(limit / peak) / spread * (1 if ran else -1)
        found[ran].append(max(0.0, -distance) + math.log1p(math.exp(-abs(distance))))
    return sum(sum(part) / len(part) for part in found.values())


def _score_spread(peaks: Sequence[tuple[bool, float]], limit: float, spread: float) -> float:
    """Mean square of probability less outcome, both kinds weighed alike."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for ran, peak in peaks:
        chance = 1 / (1 + math.exp(-max(-30.0, min(30.0, math.log(limit / peak) / spread))))
        found[ran].append((chance - ran) ** 2)
    return sum(sum(part) / len(part) for part in found.values()) / 2


def list_reliability(peaks: Sequence[tuple[bool, float]], limit: float) -> list[dict[str, float]]:
    """Marks by their probability: how many, and which share of them ran."""
    entries = []
    for low, high in itertools.pairwise((0.0, 0.1, 0.5, 0.9, 1.0001)):
        part = [ran for ran, peak in peaks if low <= estimate_fit_probability(peak, limit) < high]
        if part:
            entries.append({"from": low, "to": min(1.0, high), "marks": len(part), "ran": sum(part) / len(part)})
    return entries


def _find_peak(row: FigureRow) -> float:
    from openipu.validation.figures.micro.matmul import plan_row_convolution

    return float(plan_row_convolution(row).peak_bytes)


def _balance(peaks: Sequence[tuple[bool, float]], limit: float) -> float:
    shares = []
    for did_fit in (True, False):
        part = [(peak <= limit) == did_fit for fits, peak in peaks if fits is did_fit]
        shares.append(sum(part) / len(part))
    return sum(shares) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = read_rows(arguments.figures)
    document = {**fit_machines(rows), "memory of Mk1": fit_gap(rows)}
    micro = [row for row in rows if row.kind == "micro"]
    document["spreads"] = measure_spreads(micro)
    text = json.dumps(document, indent=2)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
