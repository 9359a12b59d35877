"""Cycles of the vertices that multiply on one tile, from the formulas that Poplibs plans with.

In: sizes on the busiest tile, as arrays with one entry per candidate. Out: cycles, same shape, not yet scaled by the
target's `compute_scale`. Workers issue in rotation, so t cycles of a worker are workers x t cycles of the tile.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from openipu.ops.linear.figures import Figures

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Extra cycles of a coefficient load when 1, 2 or 4 kernel rows share a block of input channels.
_FOLDED_LOAD_CYCLES = {1: 15, 2: 46, 4: 60}


def ceil_divide(value: Ints, divisor: Ints | int) -> Ints:
    return -(-value // divisor)


def amp_pointwise_cycles(rows: Ints, in_blocks: Ints, out_blocks: Ints, groups: Ints, figures: Figures) -> Floats:
    """The 1x1 vertex: `rows` field points times in_blocks x out_blocks coefficient blocks, for each group."""
    workers = figures.workers
    if figures.float8:
        return _float8_pointwise_cycles(rows, in_blocks, out_blocks, groups, figures)
    most, least = ceil_divide(rows, workers), rows // workers
    retains_state = _retains_state(figures)

    def multiply_block(zeroing: bool) -> Floats:
        slowest = workers * _pointwise_worker_cycles(most, zeroing, figures)
        fastest = workers * _pointwise_worker_cycles(least, zeroing, figures)
        return np.maximum(slowest, fastest + 14)

    load = figures.coefficient_load_cycles
    accumulate = (in_blocks - 1) * (15 + out_blocks * (19 + 6 + load + multiply_block(False)))
    first = 11 + out_blocks * (18 + 7 + load + multiply_block(True))
    per_worker = 7 + 3 * (in_blocks * groups - 1) if retains_state else np.zeros(rows.shape)
    result: Floats = 50 + workers * per_worker + groups * (13 + accumulate + first)
    return result


def _float8_pointwise_cycles(rows: Ints, in_blocks: Ints, out_blocks: Ints, groups: Ints, figures: Figures) -> Floats:
    """The float8 form of the 1x1 vertex: 32 input channels in a block, no state kept between blocks."""
    count = ceil_divide(rows, figures.workers)
    long = 27 + 4 * (count.astype(np.float64) - 3)
    worker = 17 + np.select([count == 0, count == 1, count == 2], [4.0, 18.0, 23.0], long)
    block = 67 + figures.coefficient_load_cycles + figures.workers * worker
    zeroing = 5 * figures.workers  # the first block of channels writes where the others add
    result: Floats = 46 + groups * (21 + out_blocks * (46 + in_blocks * block - zeroing))
    return result


def _retains_state(figures: Figures) -> bool:
    """The fast half path keeps worker state between calls; half partials need 16 units for it."""
    return figures.half and (figures.amp_units >= 16 or not figures.half_partials)


def _pointwise_worker_cycles(rows: Ints, zeroing: bool, figures: Figures) -> Floats:
    """One worker, `rows` rows of one coefficient block."""
    count = rows.astype(np.float64)
    if _retains_state(figures):
        extra = 1 if zeroing else 2
        long = (37 if zeroing else 38) + 4 * (count - 3)
        # Two rows: the estimator says 40, more than for three. Measured products with 16 rows a tile want less.
        return np.select([rows == 0, rows == 1, rows == 2], [20.0 + extra, 31.0 + extra, 36.0 + extra], long) - 7
    if figures.half:
        cycles = np.select([rows == 0, rows == 1, rows == 2], [24.0, 39.0, 40.0], 41 + 4 * (count - 3))
        zero_cycles_per_row = 2
    else:
        cycles = np.select([rows == 0, rows == 1, rows == 2], [24.0, 47.0, 46.0], 46 + 8 * (count - 3))
        zero_cycles_per_row = 8 if figures.amp_units >= 16 else 4
    if zeroing:
        cycles = cycles + np.where(rows > 0, 2 + zero_cycles_per_row * count, 0)
    return cycles


def amp_kernel_cycles(
    *,
    field_rows: Ints,
    field_width: Ints,
    taps_high: Ints,
    taps_wide: int,
    in_blocks: Ints,
    out_blocks: Ints,
    groups: Ints,
    result_points: Ints,
    folded_rows: int,
    figures: Figures,
) -> Floats:
    """The nx1 vertex: every kernel tap passes over `field_rows` x `field_width` points of the result.

    `result_points` are zeroed first; with zeros inserted in the input they are more than one tap touches.
    """
    workers = figures.workers
    slowest, fastest = _kernel_worker_cycles(field_rows, field_width, figures)
    load = figures.coefficient_load_cycles + _FOLDED_LOAD_CYCLES[folded_rows] + 3
    multiply = np.maximum(workers * slowest, workers * fastest + 9)
    block = taps_high * (14 + taps_wide * (12 + load + multiply))
    partials_per_store = max(1, figures.store_bytes_per_cycle // figures.partial_bytes)
    stores = np.ceil(np.ceil(result_points * figures.amp_units / workers) / partials_per_store)
    zeroing = groups * out_blocks * workers * (stores + 5)
    overhead = 109 + 54 + workers * (10 if figures.half_partials else 9) + groups * 23 * out_blocks
    result: Floats = overhead + groups * (16 + in_blocks * (14 + out_blocks * (14 + block))) + zeroing
    return result


def _kernel_worker_cycles(field_rows: Ints, field_width: Ints, figures: Figures) -> tuple[Floats, Floats]:
    """Slowest and fastest worker for one tap: points are dealt out in order, a work item is a piece of one row."""
    points = field_rows * field_width
    slowest = np.zeros(points.shape)
    fastest = np.full(points.shape, np.inf)
    start = 18 if figures.half_partials else 17
    for worker in range(figures.workers):
        first, last = worker * points // figures.workers, (worker + 1) * points // figures.workers
        held = last - first
        items = np.where(held > 0, (last - 1) // field_width - first // field_width + 1, 0)
        mean = held / np.maximum(items, 1)
        if figures.half:
            item = np.select([mean <= 1, mean <= 2], [29.0, 34.0], np.maximum(34.0, 34 + 4 * (mean - 3)))
        else:
            item = np.select([mean <= 1, mean <= 2], [33.0, 44.0], np.maximum(44.0, 45 + 8 * (mean - 3)))
        cycles = start + items * (3 + item - 9)
        slowest, fastest = np.maximum(slowest, cycles), np.minimum(fastest, cycles)
    return slowest, fastest


def multiply_accumulate_cycles(
    *,
    field_rows: Ints,
    field_width: Ints,
    taps_high: Ints,
    taps_wide: int,
    in_blocks: Ints,
    channels_per_block: int,
    out_channels: Ints,
    groups: Ints,
    figures: Figures,
) -> Floats:
    """The horizontal multiply-accumulate vertex on the plain vector path: one dot product over channels a point."""
    workers = figures.workers
    points = np.ceil(field_rows * field_width / workers)
    items = np.maximum(1, np.ceil(points / np.maximum(field_width, 1)))
    dot = _dot_product_cycles(channels_per_block, figures)
    tap = 16 + 19 * items + points * (7 + out_channels * dot)
    worker = in_blocks * taps_high * taps_wide * tap + 16
    vertex = 65 if figures.half else 58
    result: Floats = vertex + 54 + groups * (23 + 25 + workers * worker)
    return result


def _dot_product_cycles(channels: int, figures: Figures) -> float:
    """One step a vector, one or two a channel when channels do not fill whole vectors."""
    width = max(1, figures.vector_bytes // figures.element_bytes)
    if channels % width == 0:
        steps = channels / width
    else:
        steps = 1 + (channels if channels % 2 == 0 else 2 * channels)
    return 7 + steps - (1 if figures.half else 0)


def copy_cycles(elements: Floats, element_bytes: int, figures: Figures) -> Floats:
    """One local copy, a vector a cycle: a supervisor call, a worker's set-up, its share of the vectors."""
    vectors = np.ceil(elements * element_bytes / figures.vector_bytes)
    result: Floats = 20 + figures.workers * (17 + np.ceil(vectors / figures.workers))
    return result


def cast_cycles(elements: Ints, workers: int) -> Floats:
    """Float32 partials to a half result where nothing is left to reduce."""
    result: Floats = workers * (np.ceil(np.ceil(elements / workers) / 2) + 26)
    return result
