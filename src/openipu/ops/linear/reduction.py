"""Summing partial results that lie on several tiles, in one to three stages.

In: partial elements on each tile and how many tiles hold a share of the same sums (the depth).
Out: for each stage its depth, elements produced on each tile, bytes received and cycles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openipu.ops.linear.figures import Figures
from openipu.ops.linear.kernels import Floats, Ints, cast_cycles

TWO_STAGE_DEPTH = 16  # Poplibs: a depth below this is summed at once
THREE_STAGE_DEPTH = 125
MAXIMUM_STAGES = 3


@dataclass(frozen=True, eq=False, slots=True)
class Stage:
    """One stage, arrays with one entry per candidate; where a candidate has no such stage all but depth are 0."""

    depth: Floats
    result_elements: Floats
    received_bytes: Floats
    cycles: Floats


@dataclass(frozen=True, eq=False, slots=True)
class Reduction:
    """All stages, and their sums."""

    stages: tuple[Stage, ...]
    cast: Floats  # cycles of the cast that stands in for a reduction of depth 1
    count: Floats  # stages that take place
    buffer_bytes: Floats  # the largest stage's received and own partials

    @property
    def cycles(self) -> Floats:
        total = self.cast.copy()
        for stage in self.stages:
            total += stage.cycles
        return total

    @property
    def received_bytes(self) -> Floats:
        return sum((stage.received_bytes for stage in self.stages), np.zeros(self.cast.shape))


def split_depth(depth: Ints) -> tuple[Floats, ...]:
    """Depth of each stage: about the same for all, and together they cover the whole depth."""
    remaining = depth.astype(np.float64)
    stages = np.where(depth >= THREE_STAGE_DEPTH, 3, np.where(depth >= TWO_STAGE_DEPTH, 2, 1))
    # Rounding guards whole roots: 64 ** (1 / 2) must stay 8 and 125 ** (1 / 3) must stay 5.
    even = np.ceil(np.round(remaining ** (1.0 / stages), 9))
    result = []
    for index in range(MAXIMUM_STAGES):
        this = np.where(stages > index, np.where(stages == index + 1, remaining, np.minimum(even, remaining)), 1.0)
        result.append(this)
        remaining = np.ceil(remaining / this)
    return tuple(result)


def reduce_partials(partials: Ints, depth: Ints, figures: Figures) -> Reduction:
    """Prices every stage; half results of float partials that need no sum are cast instead."""
    accumulators = 8 if figures.half_partials else 4
    elements = partials.astype(np.float64)
    stages = []
    count = np.zeros(partials.shape)
    buffer_bytes = np.zeros(partials.shape)
    for stage_depth in split_depth(depth):
        active = stage_depth > 1
        result = np.ceil(elements / stage_depth)
        loops = np.ceil(np.ceil(result / accumulators) / figures.workers)
        cycles = figures.workers * (32 + (3 * stage_depth + 7) * loops)
        received = (stage_depth - 1) * result * figures.partial_bytes
        stages.append(
            Stage(stage_depth, np.where(active, result, 0), np.where(active, received, 0), np.where(active, cycles, 0))
        )
        buffer_bytes = np.maximum(buffer_bytes, np.where(active, stage_depth * result * figures.partial_bytes, 0))
        count += active
        elements = np.where(active, result, elements)
    needs_cast = figures.half and not figures.half_partials
    cast = np.where(depth <= 1, cast_cycles(partials, figures.workers), 0.0) if needs_cast else np.zeros(partials.shape)
    return Reduction(tuple(stages), cast, count, buffer_bytes)
