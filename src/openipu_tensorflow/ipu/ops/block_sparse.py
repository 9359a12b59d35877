"""Products and a softmax of matrices of which only some blocks are there, over TensorFlow's ops.

In: tensors, and the attributes that the library `libblock_sparse` of public applications takes: sizes of matrices and
of blocks, and a 0 or 1 for each block, row by row and group by group. Out: tensors. A matrix of blocks is one row of
numbers for each that is there. Blocks that are not there cost nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

import tensorflow as tf

_UPPER, _LOWER = 1, 2  # triangles of a group that count as zero


@dataclass(frozen=True)
class Blocks:
    """Which blocks of each group's matrix are there, in the order in which they are stored."""

    group: Any  # of each block, as are:
    row: Any
    column: Any
    across: int  # blocks of a row of the matrix
    down: int
    groups: int


def read_blocks(mask: str, down: int, across: int) -> Blocks:
    """Raises ValueError for a mask that does not cover whole matrices."""
    if not mask or len(mask) % (down * across):
        raise ValueError(
            f"The sparsity mask has {len(mask)} entries, and a matrix has {down} x {across} blocks: it needs one entry "
            "for each block of each group."
        )
    there = numpy.array([entry == "1" for entry in mask]).reshape(-1, down, across)
    group, row, column = (found.astype(numpy.int32) for found in numpy.nonzero(there))
    return Blocks(group, row, column, across, down, len(there))


def multiply_by_blocks(tensors: Sequence[Any], attributes: str, shapes: Sequence[Any]) -> Sequence[Any]:
    """A dense matrix times one of blocks; with `transposed_rhs`, times its transpose."""
    left, stored = tensors
    options = json.loads(attributes)
    (rows, inner, columns), (_, deep, wide) = options["dim"], options["block_size"]
    if options.get("transposed_rhs"):
        held = read_blocks(options["sparsity_mask"], columns // wide, inner // deep)
        blocks = tf.transpose(tf.reshape(stored, [-1, wide, deep]), [0, 2, 1])
        source, target = held.column, held.row
    else:
        held = read_blocks(options["sparsity_mask"], inner // deep, columns // wide)
        blocks = tf.reshape(stored, [-1, deep, wide])
        source, target = held.row, held.column
    groups, parts = held.groups, _cut_columns(left, held.groups, rows, deep)
    products = tf.matmul(tf.gather(parts, held.group * (inner // deep) + source), blocks)
    summed = tf.math.unsorted_segment_sum(products, held.group * (columns // wide) + target, groups * columns // wide)
    joined = tf.transpose(tf.reshape(summed, [groups, columns // wide, rows, wide]), [0, 2, 1, 3])
    return [tf.reshape(joined, [*left.shape[:-2], rows, columns])]


def multiply_into_blocks(tensors: Sequence[Any], attributes: str, shapes: Sequence[Any]) -> Sequence[Any]:
    """The wanted blocks of the product of two dense matrices."""
    left, right = tensors
    options = json.loads(attributes)
    (rows, inner, columns), (high, _, wide) = options["dim"], options["block_size"]
    held = read_blocks(options["sparsity_mask"], rows // high, columns // wide)
    strips = tf.reshape(left, [held.groups * held.down, high, inner])
    parts = _cut_columns(right, held.groups, inner, wide)
    upper = tf.gather(strips, held.group * held.down + held.row)
    products = tf.matmul(upper, tf.gather(parts, held.group * held.across + held.column))
    return [tf.reshape(products, [-1, high * wide])]


def soften_blocks(tensors: Sequence[Any], attributes: str, shapes: Sequence[Any]) -> Sequence[Any]:
    """Softmax over each row of a matrix of blocks; what is not there, or in a triangle that is left out, is zero."""
    (stored,) = tensors
    options = json.loads(attributes)
    *_, rows, columns = options["dim_dense"]
    high, wide = options["block_size"]
    held = read_blocks(options["sparsity_mask"], rows // high, columns // wide)
    blocks = tf.reshape(stored, [-1, high, wide])
    counts = tf.constant(_list_counting(held, options, high, wide).astype(blocks.dtype.as_numpy_dtype))
    strip, strips = held.group * held.down + held.row, held.groups * held.down
    shown = blocks * counts + (counts - 1) * _far(blocks.dtype)
    largest = tf.math.unsorted_segment_max(tf.reduce_max(shown, axis=2), strip, strips)
    powers = tf.exp(shown - tf.stop_gradient(tf.gather(largest, strip))[:, :, None]) * counts
    sums = tf.math.unsorted_segment_sum(tf.reduce_sum(powers, axis=2), strip, strips)
    made = tf.math.divide_no_nan(powers, tf.gather(sums, strip)[:, :, None])
    return [tf.reshape(made, [-1, high * wide])]


def _cut_columns(matrices: Any, groups: int, rows: int, width: int) -> Any:
    """Parts of `width` columns each, those of all groups one after the other."""
    columns = int(matrices.shape[-1])
    cut = tf.reshape(matrices, [groups, rows, columns // width, width])
    return tf.reshape(tf.transpose(cut, [0, 2, 1, 3]), [groups * columns // width, rows, width])


def _list_counting(held: Blocks, options: dict[str, Any], high: int, wide: int) -> Any:
    """1 for every number of the blocks that counts, 0 for those in a triangle that is left out."""
    kinds = numpy.array(options.get("subblock_mask_type", [0]))
    kinds = numpy.repeat(kinds, held.groups) if len(kinds) == 1 else kinds
    if len(kinds) != held.groups:
        raise ValueError(f"subblock_mask_type says {len(kinds)} kinds, and there are {held.groups} groups.")
    down = held.row[:, None, None] * high + numpy.arange(high)[None, :, None]
    along = held.column[:, None, None] * wide + numpy.arange(wide)[None, None, :]
    kind = kinds[held.group][:, None, None]
    return ~(((kind == _UPPER) & (along > down)) | ((kind == _LOWER) & (along < down)))


def _far(dtype: Any) -> float:
    """Far below any number that counts, and far from overflow."""
    return 1e4 if dtype == tf.float16 else 1e30


OPS = {
    "BuildDSD": multiply_by_blocks,
    "BuildDDS": multiply_into_blocks,
    "BuildSoftmax": soften_blocks,
    "BuildSoftmaxInPlace": soften_blocks,
}
