"""Ways to cut a problem into pieces of equal size, one piece per tile.

In: a `Variant` and the number of tiles. Out: an integer array with one row per dimension (`DIMENSIONS`) and one column
per candidate; the product of a column never exceeds the tiles.
"""

from __future__ import annotations

import numpy as np

from openipu.ops.linear.kernels import Ints, ceil_divide
from openipu.ops.linear.shapes import Convolution
from openipu.ops.linear.variants import Variant

DIMENSIONS = ("groups", "batch", "height", "width", "kernel", "in_channels", "out_channels")

# A cut of the field is kept while it is within this factor of the best with no more pieces.
_POINTS_SLACK = 1.1
_INPUT_SLACK = 1.2


def list_counts(size: int, limit: int) -> Ints:
    """Piece counts up to `limit` that each give another piece size: 2 and 3 pieces of 4 are both of 2, so 3 is out."""
    counts: list[int] = []
    count = 1
    while count <= min(size, limit):
        counts.append(count)
        piece = -(-size // count)
        if piece == 1:
            break
        count = -(-size // (piece - 1))
    return np.array(counts or [1], dtype=np.int64)


def enumerate_splits(variant: Variant, tiles: int) -> Ints:
    """All candidates of one variant."""
    view = variant.view
    field = _list_field_splits(view, tiles)
    groups = list_counts(view.groups, tiles)
    kernel = list_counts(-(-view.kernel_height // variant.folded_rows), tiles)
    in_channels = list_counts(variant.in_blocks, tiles)
    out_channels = list_counts(variant.out_blocks, tiles)
    columns = np.ones((0, 1), dtype=np.int64)
    for choices in (groups[None, :], field, kernel[None, :], in_channels[None, :], out_channels[None, :]):
        columns = _combine(columns, choices, tiles)
    return columns


def _combine(left: Ints, right: Ints, tiles: int) -> Ints:
    """Every pair of columns whose product is within the tiles."""
    products = left.prod(axis=0)[:, None] * right.prod(axis=0)[None, :]
    first, second = np.nonzero(products <= tiles)
    return np.concatenate([left[:, first], right[:, second]])


def _list_field_splits(view: Convolution, tiles: int) -> Ints:
    """Cuts of batch, height and width; those that only add halo are dropped, which keeps the search short."""
    columns = np.ones((0, 1), dtype=np.int64)
    for size in (view.batch, view.out_height, view.out_width):
        columns = _combine(columns, list_counts(size, tiles)[None, :], tiles)
    if view.batch == 1 and view.out_height == 1:
        return columns
    batch, height, width = (
        ceil_divide(np.full(columns.shape[1], size), columns[index])
        for index, size in enumerate((view.batch, view.out_height, view.out_width))
    )
    points = batch * height * width
    inputs = batch * count_points(height, view, axis=0) * count_points(width, view, axis=1)
    order = np.lexsort((inputs, points, columns.prod(axis=0)))
    points, inputs = points[order], inputs[order]
    keep = points <= np.minimum.accumulate(points) * _POINTS_SLACK
    keep &= inputs <= np.minimum.accumulate(inputs) * _INPUT_SLACK
    # The first column is the uncut field: it has no rival and always stays.
    return columns[:, order[keep]]


def count_points(outputs: Ints, view: Convolution, *, axis: int, kernel_rows: Ints | int | None = None) -> Ints:
    """Input points that `outputs` results along height (0) or width (1) read, for each candidate."""
    taps: Ints | int
    if axis == 0:
        stride, dilation, inserted = view.stride_height, view.dilation_height, view.input_dilation_height
        taps = view.kernel_height if kernel_rows is None else kernel_rows
    else:
        stride, dilation, inserted = view.stride_width, view.dilation_width, view.input_dilation_width
        taps = view.kernel_width
    extent = (outputs - 1) * stride + (taps - 1) * dilation + 1
    result: Ints = np.minimum(ceil_divide(extent, inserted), outputs * taps)
    return result
