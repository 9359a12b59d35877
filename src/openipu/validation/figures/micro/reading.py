"""What all predictors of micro-benchmarks read off a row.

In: a row. Out: its system and cost context, costs in seconds, and tests of its words.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from openipu.errors import FiguresError
from openipu.machine import System
from openipu.ops.cost import CostContext, OpCost
from openipu.validation.figures.micro.programs import FORMATS
from openipu.validation.figures.outcome import Matches
from openipu.validation.figures.rows import FigureRow
from openipu.validation.figures.systems import find_system


@dataclass(frozen=True, slots=True)
class Bench:
    """The machine that a row was measured on."""

    system: System
    context: CostContext

    @property
    def clock_hz(self) -> float:
        return self.system.target.clock_hz

    @property
    def tiles(self) -> int:
        return self.system.target.tiles

    def seconds(self, *costs: OpCost) -> float:
        """One after the other."""
        return self.system.target.seconds(sum(cost.cycles for cost in costs))


def find_bench(row: FigureRow) -> Bench:
    """All tiles of the row's chip."""
    system = find_system(row)
    return Bench(system, CostContext(system.target, system.target.tiles))


def speaks_of(*words: str, metric: str = "") -> Matches:
    """A test of a row: a micro-benchmark whose workload has all these words, and whose metric has that one."""

    def matches(row: FigureRow) -> bool:
        workload = row.workload.lower()
        return row.kind == "micro" and metric in row.metric.lower() and all(word in workload for word in words)

    return matches


def read_format(row: FigureRow, default: str = "half") -> torch.dtype:
    """The number format of the operands: "FP16", "half/half partials", "mixed fp16.32"."""
    text = str(row.params.get("dtype", default)).lower()
    for name, dtype in FORMATS.items():
        if text.startswith(name) or f" {name}" in text:
            return dtype
    raise FiguresError(f"Row {row.id}: the number format {text!r} is unknown. Use one of {', '.join(FORMATS)}.")
