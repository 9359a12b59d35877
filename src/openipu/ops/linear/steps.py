"""Turns a chosen plan into the BSP steps that a profile shows.

In: the problem, a `Choice`, the `Figures`. Out: `CostStep`s without launches, and the summary that reports print.
With one launch before each exchange phase the steps add up to the cycles that the plan was chosen by.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from openipu.ops.cost import CostStep, LaidOut, StepKind
from openipu.ops.linear.candidates import Candidates, cut_pieces, evaluate
from openipu.ops.linear.figures import Figures
from openipu.ops.linear.memory import scratch_bytes
from openipu.ops.linear.reduction import Stage
from openipu.ops.linear.search import Candidate, Choice
from openipu.ops.linear.splits import DIMENSIONS
from openipu.ops.linear.variants import TRANSFORM_BASE_CYCLES, Expansion, Method, rate_transform

# Poplibs spreads what several tiles share in pieces no smaller than these.
_SMALLEST_INPUT_PIECE_BYTES = 128
_SMALLEST_WEIGHT_PIECE_BYTES = 256

OPERAND_EXCHANGE = "broadcast inputs and weights"

_VERTICES = {
    Method.AMP_POINTWISE: "poplin::ConvPartial1x1Out",
    Method.AMP_KERNEL: "poplin::ConvPartialnx1",
    Method.MULTIPLY_ACCUMULATE: "poplin::ConvPartialHorizontalMac",
}


def price_candidate(candidate: Candidate, figures: Figures) -> Candidates:
    """All terms of one plan: arrays of one entry."""
    splits = np.array(candidate.splits, dtype=np.int64)[:, None]
    return evaluate(candidate.variant, cut_pieces(candidate.variant, splits), figures)


def build_steps(priced: Candidates, figures: Figures) -> tuple[CostStep, ...]:
    """Slice, exchange, multiply, reduce and update in each pass of the serial loop; one rearrangement around it."""
    transform = _list_transform_steps(priced, figures)
    after = priced.variant.expansion is Expansion.RESULT
    return (
        *(() if after else transform),
        *_list_slice_steps(priced, figures),
        _describe_operand_exchange(priced),
        *_list_ordering_steps(priced, figures),
        _describe_multiply(priced, figures),
        *_list_reduction_steps(priced, figures),
        *_list_update_steps(priced, figures),
        *_list_regroup_steps(priced, figures),
        *(transform if after else ()),
    )


def _count_tiles(priced: Candidates) -> int:
    return int(priced.pieces.tiles[0])


def _name_types(figures: Figures) -> str:
    operand = "quarter" if figures.float8 else "half" if figures.half else "float"
    partial = "half" if figures.half_partials else "float"
    return f"<{operand},{partial}>"


def _list_transform_steps(priced: Candidates, figures: Figures) -> list[CostStep]:
    variant = priced.variant
    if not variant.transform_bytes:
        return []
    moved = round(variant.transform_bytes * figures.tiles)
    what = "result" if variant.expansion is Expansion.RESULT else "operands"
    return [
        CostStep(
            kind=StepKind.EXCHANGE,
            name=f"gather {what} to rearrange",
            cycles=variant.transform_bytes / figures.exchange_bytes_per_cycle,
            tiles=figures.tiles,
            moved_bytes=moved,
            messages_per_tile=max(1, round(variant.transform_bytes / _SMALLEST_INPUT_PIECE_BYTES)),
        ),
        CostStep(
            kind=StepKind.COMPUTE,
            name=f"rearrange {what}",
            cycles=variant.transform_copy_cycles * (figures.few_channel_scale if variant.has_few_channels else 1.0),
            tiles=figures.tiles,
            vertex="poplin::Transpose2D",
        ),
    ]


def _list_slice_steps(priced: Candidates, figures: Figures) -> list[CostStep]:
    loop = priced.serial_loop
    slices = (("slice weights", loop.slice_weights_cycles), ("slice inputs", loop.slice_inputs_cycles))
    return [
        CostStep(
            kind=StepKind.COMPUTE,
            name=name,
            cycles=cycles,
            tiles=figures.tiles,
            vertex="popops::DynamicSlice2D",
            repeats=priced.variant.serial,
        )
        for name, cycles in slices
        if cycles
    ]


def _describe_operand_exchange(priced: Candidates) -> CostStep:
    splits = priced.pieces.splits[:, 0]
    tiles = _count_tiles(priced)
    input_bytes, weight_bytes = float(priced.input_bytes[0]), float(priced.weight_bytes[0])
    input_pieces = min(int(splits[6]) - 1, -(-input_bytes // _SMALLEST_INPUT_PIECE_BYTES))
    weight_pieces = min(int(splits[1] * splits[2] * splits[3]) - 1, -(-weight_bytes // _SMALLEST_WEIGHT_PIECE_BYTES))
    return CostStep(
        kind=StepKind.EXCHANGE,
        name=OPERAND_EXCHANGE,
        cycles=float(priced.exchange_cycles[0]),
        tiles=tiles,
        moved_bytes=round((input_bytes + weight_bytes) * tiles),
        messages_per_tile=max(1, int(input_pieces + weight_pieces)),
        repeats=priced.variant.serial,
    )


def _list_ordering_steps(priced: Candidates, figures: Figures) -> list[CostStep]:
    """Activations as coefficients, summed over a number of rows that fills no whole vectors, such as 197 tokens.

    Coefficients lie with the summed dimension innermost. Poplibs turns whole vectors before the exchange; without them
    every tile puts its part in order after it, element by element. Poplibs' planner does not know of that copy.
    """
    problem = priced.variant.original
    whole = problem.in_channels % max(1, figures.vector_bytes // figures.element_bytes) == 0
    if not problem.groups_are_batches or problem.groups == 1 or whole or priced.variant.swapped:
        return []
    held = float(priced.pieces.weight_elements[0]) * figures.element_bytes
    return [
        CostStep(
            kind=StepKind.COMPUTE,
            name="order coefficients",
            cycles=TRANSFORM_BASE_CYCLES + rate_transform(figures.element_bytes) * held,
            tiles=_count_tiles(priced),
            vertex="poplin::Transpose2D",
            repeats=priced.variant.serial,
        )
    ]


def _describe_multiply(priced: Candidates, figures: Figures) -> CostStep:
    variant = priced.variant
    return CostStep(
        kind=StepKind.COMPUTE,
        name=str(variant.method),
        cycles=float(priced.compute_cycles[0]),
        tiles=_count_tiles(priced),
        flops=variant.original.flops // variant.serial,
        vertex=_VERTICES[variant.method] + _name_types(figures),
        repeats=variant.serial,
    )


def _list_reduction_steps(priced: Candidates, figures: Figures) -> list[CostStep]:
    """The additions count no flops: the multiply already counts two for each product, summed wherever it is."""
    passes, tiles = priced.variant.serial, _count_tiles(priced)
    steps: list[CostStep] = []
    for number, stage in enumerate(priced.reduction.stages, start=1):
        if stage.cycles[0]:
            steps += _describe_stage(stage, number, passes, tiles, figures)
    if priced.reduction.cast[0]:
        cycles = figures.compute_scale * float(priced.reduction.cast[0])
        steps.append(
            CostStep(
                StepKind.COMPUTE, "cast partials", cycles, tiles, vertex="popops::Cast<float,half>", repeats=passes
            )
        )
    return steps


def _describe_stage(stage: Stage, number: int, passes: int, tiles: int, figures: Figures) -> list[CostStep]:
    received = float(stage.received_bytes[0])
    return [
        CostStep(
            kind=StepKind.EXCHANGE,
            name=f"exchange partials, stage {number}",
            cycles=received / figures.exchange_bytes_per_cycle,
            tiles=tiles,
            moved_bytes=round(received * tiles),
            messages_per_tile=int(stage.depth[0]) - 1,
            repeats=passes,
        ),
        CostStep(
            kind=StepKind.COMPUTE,
            name=f"reduce stage {number}",
            cycles=figures.compute_scale * float(stage.cycles[0]),
            tiles=tiles,
            vertex="poplin::ReduceAdd" + _name_types(figures),
            repeats=passes,
        ),
    ]


def _list_update_steps(priced: Candidates, figures: Figures) -> list[CostStep]:
    loop, variant = priced.serial_loop, priced.variant
    if not loop.update_cycles:
        return []
    adds = variant.serial_in > 1
    return [
        CostStep(
            kind=StepKind.COMPUTE,
            name="add to result" if adds else "update result slice",
            cycles=loop.update_cycles,
            tiles=figures.tiles,
            vertex="popops::ScaledAdd2D" if adds else "popops::DynamicUpdateSlice2D",
            repeats=variant.serial,
        )
    ]


def _list_regroup_steps(priced: Candidates, figures: Figures) -> list[CostStep]:
    cycles = float(priced.regroup_cycles[0])
    if not cycles:
        return []
    vertex = "popops::Copy<half>" if figures.half else "popops::Copy<float>"
    return [CostStep(StepKind.COMPUTE, "order results of groups", cycles, _count_tiles(priced), vertex=vertex)]


def summarize_plan(priced: Candidates, choice: Choice, figures: Figures) -> dict[str, Any]:
    """What was chosen, for reports: plain numbers and words."""
    variant = priced.variant
    cycles = float(priced.total_cycles[0])
    ideal_cycles = variant.original.flops / figures.peak_flops_per_cycle if figures.peak_flops_per_cycle else 0.0
    multiply_cycles = float(priced.compute_cycles[0]) * variant.serial
    return {
        "method": str(variant.method),
        "coefficients": "left operand" if variant.swapped else "right operand",
        "taps_as_channels": str(variant.expansion),
        "splits": dict(zip(DIMENSIONS, choice.candidate.splits, strict=True)),
        "serial_splits": {"in_channels": variant.serial_in, "out_channels": variant.serial_out},
        "tiles": _count_tiles(priced),
        "partials": "half" if figures.half_partials else "float",
        "received_weight_bytes": round(float(priced.weight_bytes[0])),  # on the busiest tile, in one pass
        "temporary_bytes": round(float(priced.temporary_bytes[0])),
        "scratch_bytes": round(_measure_scratch(priced, figures)),
        "cycles_with_launches": cycles,
        "amp_utilisation": ideal_cycles / multiply_cycles,  # of all tiles, while multiplying
        "efficiency": ideal_cycles / cycles,  # of all tiles, over the whole op
        "memory_bound_doublings": choice.bound_doublings,
        "uncertain": list_doubts(priced, figures),
    }


def measure_laid_out(priced: Candidates, figures: Figures) -> tuple[LaidOut, ...]:
    """Bytes of the left and the right operand that the plan takes to lie on the busiest tile from the start.

    A rearrangement gathers what it rearranges anyway. An operand of which a part arrives is in the plan's scratch in
    full; so only one that was to be worked on where it lies needs room of its own when it has to come.
    """
    variant, pieces = priced.variant, priced.pieces
    splits = pieces.splits[:, 0]
    left = float(pieces.input_elements[0]) / int(splits[6]) * variant.serial_in
    right = float(pieces.weight_elements[0]) / int(splits[1] * splits[2] * splits[3]) * variant.serial
    gathered = variant.transform_bytes > 0 and variant.expansion is not Expansion.RESULT
    sizes = (0.0 if gathered else left, 0.0 if variant.swapped else right)
    ready = find_ready(priced)
    return tuple(
        LaidOut(number, size * figures.element_bytes, size * figures.element_bytes if lies else 0.0)
        for number, (size, lies) in enumerate(zip(sizes, ready, strict=True))
        if size
    )


def find_ready(priced: Candidates) -> tuple[bool, bool]:
    """Whether the tile works on its inputs, and on its weights, where they lie: nothing arrives or is cut off."""
    variant = priced.variant
    splits = [int(count) for count in priced.pieces.splits[:, 0]]
    view = variant.view
    has_halo = (splits[2] > 1 and view.kernel_height > 1) or (splits[3] > 1 and view.kernel_width > 1)
    inputs = splits[6] == 1 and variant.serial_in == 1 and not has_halo
    weights = splits[1] * splits[2] * splits[3] == 1 and variant.serial == 1
    return inputs, weights


def _measure_scratch(priced: Candidates, figures: Figures) -> float:
    pieces = priced.pieces
    sums = int(pieces.splits[4][0]) * int(pieces.splits[5][0])
    inputs_lie_ready, weights_lie_ready = find_ready(priced)
    return scratch_bytes(
        input_bytes=float(pieces.input_elements[0] * figures.element_bytes),
        weight_bytes=float(pieces.weight_elements[0] * figures.element_bytes),
        partial_bytes=float(pieces.partial_elements[0] * figures.partial_bytes),
        reduction_buffer_bytes=float(priced.reduction.buffer_bytes[0]),
        bound_bytes=float(priced.temporary_bytes[0]),
        inputs_lie_ready=inputs_lie_ready,
        weights_lie_ready=weights_lie_ready,
        partials_are_result=sums == 1 and priced.variant.serial == 1 and figures.partial_bytes == figures.result_bytes,
    )


def list_doubts(priced: Candidates, figures: Figures) -> list[str]:
    """Why published measurements of such plans were not reproduced."""
    problem = priced.variant.original
    doubts = []
    if problem.groups > 1 and problem.in_channels < 8:
        doubts.append("fewer than 8 input channels in a group")
    elif figures.architecture == "ipu1" and problem.in_channels < 8:
        doubts.append("fewer than 8 input channels: measured 2 to 5 times slower on Mk1")
    if priced.temporary_bytes[0] > 0.6 * figures.tile_memory_bytes:
        doubts.append("temporary memory above 60 % of a tile")
    if priced.variant.method is Method.MULTIPLY_ACCUMULATE:
        doubts.append("no AMP units used; that vertex has no published timing")
    return doubts
