"""Prices every way to cut a variant over the tiles, all at once.

In: a `Variant`, columns of piece counts, the `Figures`. Out: `Candidates`: sizes, cycles and temporary bytes of the
busiest tile, arrays with one entry per column. Exchange and compute never overlap: phases add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openipu.ops.linear.figures import Figures
from openipu.ops.linear.kernels import (
    Floats,
    Ints,
    amp_kernel_cycles,
    amp_pointwise_cycles,
    ceil_divide,
    copy_cycles,
    multiply_accumulate_cycles,
)
from openipu.ops.linear.memory import temporary_bytes
from openipu.ops.linear.reduction import Reduction, reduce_partials
from openipu.ops.linear.serial import SerialLoop, price_serial_loop
from openipu.ops.linear.splits import count_points
from openipu.ops.linear.variants import Method, Variant


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """What one tile holds in one pass of the serial loop."""

    splits: Ints
    groups: Ints
    batch: Ints
    height: Ints
    width: Ints
    kernel_rows: Ints
    in_blocks: Ints
    out_blocks: Ints
    input_elements: Ints
    weight_elements: Ints
    partial_elements: Ints

    @property
    def tiles(self) -> Ints:
        result: Ints = self.splits.prod(axis=0)
        return result

    def keep(self, index: Ints) -> Pieces:
        """Some of the candidates."""
        return Pieces(*(getattr(self, name)[..., index] for name in self.__slots__))


@dataclass(frozen=True, eq=False, slots=True)
class Candidates:
    """Everything a plan is chosen by and reported with; cycles and bytes are for one pass of the serial loop."""

    variant: Variant
    pieces: Pieces
    input_bytes: Floats  # received
    weight_bytes: Floats
    exchange_cycles: Floats
    compute_cycles: Floats
    reduction: Reduction
    serial_loop: SerialLoop
    regroup_cycles: Floats  # once, after all passes
    temporary_bytes: Floats
    total_cycles: Floats  # all passes, launches included


def cut_pieces(variant: Variant, splits: Ints) -> Pieces:
    """Sizes on the busiest tile, by rounding up."""
    view = variant.view
    sizes = (
        view.groups,
        view.batch,
        view.out_height,
        view.out_width,
        -(-view.kernel_height // variant.folded_rows),
        variant.in_blocks,
        variant.out_blocks,
    )
    groups, batch, height, width, kernel_groups, in_blocks, out_blocks = (
        -(-size // splits[index]) for index, size in enumerate(sizes)
    )
    kernel_rows = np.minimum(kernel_groups * variant.folded_rows, view.kernel_height)
    in_height = count_points(height, view, axis=0, kernel_rows=kernel_rows)
    in_width = count_points(width, view, axis=1)
    in_channels = in_blocks * variant.in_block
    out_channels = out_blocks * variant.out_block
    # Folded rows are held as extra channels, so a block with folded rows keeps its padded height.
    held_rows = kernel_groups * variant.folded_rows
    return Pieces(
        splits=splits,
        groups=groups,
        batch=batch,
        height=height,
        width=width,
        kernel_rows=kernel_rows,
        in_blocks=in_blocks,
        out_blocks=out_blocks,
        input_elements=groups * batch * in_height * in_width * in_channels,
        weight_elements=groups * held_rows * view.kernel_width * in_channels * out_channels,
        partial_elements=groups * batch * height * width * out_channels,
    )


def received_bytes(pieces: Pieces, figures: Figures) -> tuple[Floats, Floats]:
    """Input and weight bytes that arrive: what several tiles need is spread over them before, the rest is local."""
    field_tiles = pieces.splits[1] * pieces.splits[2] * pieces.splits[3]
    inputs = pieces.input_elements * figures.element_bytes * (1 - 1 / pieces.splits[6])
    weights = pieces.weight_elements * figures.element_bytes * (1 - 1 / field_tiles)
    return inputs, weights


def operand_exchange_cycles(pieces: Pieces, figures: Figures) -> Floats:
    """Tiles on one bus that want the same input, which an even split of the output channels arranges, share it."""
    inputs, weights = received_bytes(pieces, figures)
    shared = pieces.splits[6] % figures.exchange_sharing_tiles == 0
    input_rate = figures.exchange_bytes_per_cycle * np.where(shared, figures.exchange_sharing_tiles, 1)
    result: Floats = inputs / input_rate + weights / figures.exchange_bytes_per_cycle
    return result


def multiply_cycles(variant: Variant, pieces: Pieces, figures: Figures) -> Floats:
    """The vertex of this variant on the busiest tile."""
    view = variant.view
    rows = pieces.batch * ceil_divide(pieces.height, view.input_dilation_height)
    width = ceil_divide(pieces.width, view.input_dilation_width)
    if variant.method is Method.AMP_POINTWISE:
        return amp_pointwise_cycles(rows * width, pieces.in_blocks, pieces.out_blocks, pieces.groups, figures)
    if variant.method is Method.AMP_KERNEL:
        return amp_kernel_cycles(
            field_rows=rows,
            field_width=width,
            taps_high=ceil_divide(pieces.kernel_rows, variant.folded_rows),
            taps_wide=view.kernel_width,
            in_blocks=pieces.in_blocks,
            out_blocks=pieces.out_blocks,
            groups=pieces.groups,
            result_points=pieces.batch * pieces.height * pieces.width,
            folded_rows=variant.folded_rows,
            figures=figures,
        )
    return multiply_accumulate_cycles(
        field_rows=rows,
        field_width=width,
        taps_high=pieces.kernel_rows,
        taps_wide=view.kernel_width,
        in_blocks=pieces.in_blocks,
        channels_per_block=variant.in_block,
        out_channels=pieces.out_blocks,
        groups=pieces.groups,
        figures=figures,
    )


def regroup_results(variant: Variant, pieces: Pieces, figures: Figures) -> Floats:
    """Results of several groups are copied once into the order of channels."""
    if not variant.regroups:
        return np.zeros(pieces.groups.shape)
    held = variant.view.result_elements / pieces.tiles
    return figures.compute_scale * copy_cycles(held, 4 if not figures.half else 2, figures)


def evaluate(variant: Variant, pieces: Pieces, figures: Figures) -> Candidates:
    """Cycles and temporary bytes of every candidate; `steps.build_steps` lists the same terms one by one."""
    input_bytes, weight_bytes = received_bytes(pieces, figures)
    exchange = operand_exchange_cycles(pieces, figures)
    slowness = figures.few_channel_scale if variant.has_few_channels else 1.0
    compute = slowness * figures.compute_scale * multiply_cycles(variant, pieces, figures)
    reduction = reduce_partials(pieces.partial_elements, pieces.splits[4] * pieces.splits[5], figures)
    serial_loop = price_serial_loop(variant, figures)
    one_pass = exchange + compute + figures.compute_scale * reduction.cycles
    one_pass = one_pass + reduction.received_bytes / figures.exchange_bytes_per_cycle
    one_pass = one_pass + figures.launch_cycles * (1 + reduction.count) + serial_loop.cycles
    total = variant.serial * one_pass
    if variant.transform_bytes:
        total = total + figures.launch_cycles + slowness * variant.transform_copy_cycles
        total = total + variant.transform_bytes / figures.exchange_bytes_per_cycle
    regroup = regroup_results(variant, pieces, figures)
    total = total + regroup
    return Candidates(
        variant=variant,
        pieces=pieces,
        input_bytes=input_bytes,
        weight_bytes=weight_bytes,
        exchange_cycles=exchange,
        compute_cycles=compute,
        reduction=reduction,
        serial_loop=serial_loop,
        regroup_cycles=regroup,
        temporary_bytes=temporary_bytes(
            input_elements=pieces.input_elements,
            weight_elements=pieces.weight_elements,
            partial_elements=pieces.partial_elements,
            reduction_buffer_bytes=reduction.buffer_bytes,
            accumulator_bytes=serial_loop.accumulator_bytes,
            transform_bytes=variant.transform_bytes,
            figures=figures,
        ),
        total_cycles=total,
    )
