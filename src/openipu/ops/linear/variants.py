"""The ways to compute one problem before anything is split over tiles.

In: a `Convolution` and the `Figures`. Out: `Variant`s: which vertex, which operand gives the coefficients, whether
kernel taps become channels, how channels are blocked, and how often the loop over channels runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from openipu.ops.linear.figures import Figures
from openipu.ops.linear.shapes import Convolution

MULTIPLY_ACCUMULATE_CHANNELS = 64  # above this many input channels the plain vector path never wins
EXPANDED_CHANNELS = 512  # taps become channels up to this many; the rest would only copy data
FEWEST_PADDED_CHANNELS = 8  # Mk1: smaller groups run on the vector path, images of fewer channels are slow
LARGE_KERNEL_TAPS = 128  # a kernel this large is a result's gradient: always worth expanding

# Poplibs' regression for the copy that rearranges an operand: cycles a byte by contiguous bytes.
TRANSFORM_BASE_CYCLES = 587
_TRANSFORM_CYCLES_PER_BYTE = ((8, 0.44), (4, 3.125), (1, 5.15))


def rate_transform(atom_bytes: int) -> float:
    """Cycles a byte of a rearrangement whose pieces are `atom_bytes` long."""
    return next(rate for atom, rate in _TRANSFORM_CYCLES_PER_BYTE if atom_bytes % atom == 0)


class Method(StrEnum):
    """The vertex that multiplies."""

    AMP_POINTWISE = "AMP 1x1"
    AMP_KERNEL = "AMP nx1"
    MULTIPLY_ACCUMULATE = "HMAC"


class Expansion(StrEnum):
    """Which kernel taps are turned into channels, by copying the input before or the result after the multiply."""

    NONE = "none"
    WIDTH = "width"
    WHOLE = "height and width"
    RESULT = "height and width, of the result"


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to compute `original`; `view` is what the tiles see of it."""

    original: Convolution
    view: Convolution
    method: Method
    expansion: Expansion
    swapped: bool  # the left operand gives the coefficients
    in_block: int  # input channels of one block
    out_block: int
    folded_rows: int  # kernel rows that share one block of input channels
    serial_in: int
    serial_out: int
    transform_bytes: float  # written on each tile by a rearrangement of operands or result; 0 without one
    transform_atom_bytes: int  # contiguous bytes in that rearrangement

    @property
    def serial(self) -> int:
        return self.serial_in * self.serial_out

    @property
    def in_blocks(self) -> int:
        """Blocks of input channels of one pass of the serial loop."""
        return math.ceil(math.ceil(self.view.in_channels / self.in_block) / self.serial_in)

    @property
    def out_blocks(self) -> int:
        return math.ceil(math.ceil(self.view.out_channels / self.out_block) / self.serial_out)

    @property
    def transform_copy_cycles(self) -> float:
        if self.transform_bytes == 0:
            return 0.0
        return TRANSFORM_BASE_CYCLES + rate_transform(self.transform_atom_bytes) * self.transform_bytes

    @property
    def has_few_channels(self) -> bool:
        """An image of a few colours, filled up for the AMP units."""
        padded = self.method is not Method.MULTIPLY_ACCUMULATE
        return padded and self.original.groups == 1 and self.original.in_channels < FEWEST_PADDED_CHANNELS

    @property
    def regroups(self) -> bool:
        """Results of groups are put into the order of channels, unless a rearrangement does so anyway."""
        original = self.original
        return original.groups > 1 and not original.groups_are_batches and self.transform_bytes == 0


def list_variants(problem: Convolution, figures: Figures) -> list[Variant]:
    """Every variant without a serial loop."""
    return [variant for view in _list_views(problem) for variant in _list_methods(problem, *view, figures)]


def list_output_loops(variant: Variant) -> Iterator[Variant]:
    """The same variant with the output channels taken in 2, 4, 8, … turns."""
    yield from (replace(variant, serial_out=turns) for turns in _list_turns(variant.out_blocks))


def list_input_loops(variant: Variant) -> Iterator[Variant]:
    """The same variant with the input channels taken in 2, 4, 8, … turns."""
    yield from (replace(variant, serial_in=turns) for turns in _list_turns(variant.in_blocks))


def _list_turns(blocks: int) -> Iterator[int]:
    turns = 2
    while turns <= blocks:
        yield turns
        turns *= 2


def _list_views(problem: Convolution) -> Iterator[tuple[Convolution, Expansion, bool]]:
    if problem.is_pointwise:
        flat = _flatten_field(problem)
        yield flat, Expansion.NONE, False
        yield replace(flat, out_width=flat.out_channels, out_channels=flat.out_width), Expansion.NONE, True
        return
    yield problem, Expansion.NONE, False
    if problem.input_dilation_height * problem.input_dilation_width > 1:
        if _taps_never_overlap(problem):
            yield _move_taps_to_result(problem), Expansion.RESULT, False
        return  # expanding the input would copy the inserted zeros
    taps = problem.kernel_height * problem.kernel_width
    width_channels, whole_channels = problem.in_channels * problem.kernel_width, problem.in_channels * taps
    if problem.kernel_width > 1 and problem.kernel_height > 1 and _worth_expanding(width_channels, taps):
        view = replace(problem, in_channels=width_channels, kernel_width=1, stride_width=1, dilation_width=1)
        yield view, Expansion.WIDTH, False
    if _worth_expanding(whole_channels, taps):
        expanded = replace(problem, in_channels=whole_channels, kernel_height=1, kernel_width=1)
        yield _flatten_field(expanded), Expansion.WHOLE, False


def _taps_never_overlap(problem: Convolution) -> bool:
    """Each input point makes its own patch of the result, as in the gradient of a patch embedding."""
    dense = problem.stride_height * problem.stride_width * problem.dilation_height * problem.dilation_width == 1
    fits_height = problem.kernel_height <= problem.input_dilation_height
    return dense and fits_height and problem.kernel_width <= problem.input_dilation_width


def _move_taps_to_result(problem: Convolution) -> Convolution:
    """A matmul on the grid of input points; every tap is an output channel."""
    rows = -(-problem.out_height // problem.input_dilation_height)
    columns = -(-problem.out_width // problem.input_dilation_width)
    channels = problem.out_channels * problem.kernel_height * problem.kernel_width
    points = problem.batch * rows * columns
    return _make_pointwise(problem, points, channels)


def _worth_expanding(channels: int, taps: int) -> bool:
    return channels <= EXPANDED_CHANNELS or taps > LARGE_KERNEL_TAPS


def _flatten_field(problem: Convolution) -> Convolution:
    """A 1x1 kernel needs no neighbours: batch, height and width become one row of points."""
    points = problem.batch * problem.out_height * problem.out_width
    return _make_pointwise(problem, points, problem.out_channels)


def _make_pointwise(problem: Convolution, points: int, channels: int) -> Convolution:
    formats = {"half": problem.half, "float8": problem.float8}
    return Convolution(problem.groups, 1, 1, points, 1, 1, problem.in_channels, channels, **formats)


def _list_methods(
    problem: Convolution, view: Convolution, expansion: Expansion, swapped: bool, figures: Figures
) -> Iterator[Variant]:
    pointwise = view.is_pointwise
    has_amp = figures.amp_units > 0 and not _lacks_padding(problem, figures)
    if has_amp:
        block = figures.in_channel_block
        blockings = [(block, 1)]
        if view.kernel_height > 1 and view.in_channels < block:
            blockings += [(block // 2, 2), (block // 4, 4)]
        method = Method.AMP_POINTWISE if pointwise else Method.AMP_KERNEL
        for in_block, folded_rows in blockings:
            copied = _count_copied_elements(problem, view, expansion, swapped, in_block)
            atom = math.gcd(problem.in_channels, in_block)
            if expansion is Expansion.NONE and not swapped and _is_ragged(problem, figures.amp_units):
                copied += problem.weight_elements + problem.result_elements
                atom = math.gcd(atom, problem.out_channels)
            yield Variant(
                original=problem,
                view=view,
                method=method,
                expansion=expansion,
                swapped=swapped,
                in_block=in_block,
                out_block=figures.amp_units,
                folded_rows=folded_rows,
                serial_in=1,
                serial_out=1,
                transform_bytes=copied * figures.element_bytes / figures.tiles,
                transform_atom_bytes=atom * figures.element_bytes,
            )
    few_channels = view.in_channels <= MULTIPLY_ACCUMULATE_CHANNELS
    if expansion is Expansion.NONE and not swapped and (few_channels or not has_amp):
        yield Variant(
            original=problem,
            view=view,
            method=Method.MULTIPLY_ACCUMULATE,
            expansion=expansion,
            swapped=False,
            in_block=max(1, min(view.in_channels, MULTIPLY_ACCUMULATE_CHANNELS)),
            out_block=1,
            folded_rows=1,
            serial_in=1,
            serial_out=1,
            transform_bytes=0.0,
            transform_atom_bytes=figures.element_bytes,
        )


def _is_ragged(problem: Convolution, out_block: int) -> bool:
    """Products of activations whose columns do not fill whole blocks, such as attention over 197 tokens.

    The right operand is filled up and the result cut back; weights of a layer lie filled up from the start.
    """
    return problem.groups_are_batches and problem.groups > 1 and problem.out_channels % out_block != 0


def _lacks_padding(problem: Convolution, figures: Figures) -> bool:
    """The first planners did not fill up groups of a few channels for the AMP units: measured on Mk1."""
    grouped = problem.groups > 1 and not problem.groups_are_batches
    return figures.architecture == "ipu1" and grouped and problem.in_channels < FEWEST_PADDED_CHANNELS


def _count_copied_elements(
    problem: Convolution, view: Convolution, expansion: Expansion, swapped: bool, in_block: int
) -> int:
    """Elements that a rearrangement writes: expanded, padded or re-laid operands, or a result put in its place."""
    if expansion is Expansion.WIDTH:
        rows = problem.out_height * problem.stride_height
        return problem.groups * problem.batch * rows * problem.out_width * view.in_channels
    if expansion is Expansion.WHOLE:
        return problem.groups * problem.batch * problem.out_height * problem.out_width * view.in_channels
    if expansion is Expansion.RESULT:
        return problem.result_elements
    if swapped:  # both operands lie for the other orientation
        return view.input_elements + view.weight_elements
    if problem.in_channels % in_block:
        padded = -(-problem.in_channels // in_block) * in_block
        return problem.input_elements // max(1, problem.in_channels) * padded
    return 0
