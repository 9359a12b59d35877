"""What stands for ops from compiled libraries: functions over TensorFlow's ops, by the name of the library.

In: `register_user_op("libcustom_op", function)`, in the program or by us. Out: `precompiled_user_op` calls the function
instead of a library, which was compiled against Poplar and cannot run here. Plans price the ops that it is made of, and
TensorFlow differentiates them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from openipu_tensorflow.ipu.ops import block_sparse

# Tensors, attributes, and shapes of the results to these.
UserOp = Callable[[Sequence[Any], str, Sequence[Any]], Sequence[Any]]
_registered: dict[tuple[str, str], UserOp] = {}  # a library and an op of it; "" for any


def register_user_op(library: str, function: UserOp, op_name: str = "") -> None:
    """Let `function(tensors, attributes, shapes)` be the op of libraries of this name, without folder and ending; with
    `op_name`, the op that programs call by that name."""
    _registered[Path(library).stem, op_name] = function


def find_user_op(library: str, op_name: str = "") -> UserOp | None:
    """The function for one op of a library, or else that for any."""
    stem = Path(library).stem
    return _registered.get((stem, op_name)) or _registered.get((stem, ""))


def _crop_centre(tensors: Sequence[Any], attributes: str, shapes: Sequence[Any]) -> Sequence[Any]:
    """U-Net's: the middle of each image, `attributes` of its height and width."""
    (images,) = tensors
    share = float(attributes)
    sizes = [round(int(size) * share) for size in images.shape[1:3]]
    starts = [(int(size) - kept) // 2 for size, kept in zip(images.shape[1:3], sizes, strict=True)]
    return [tf.slice(images, [0, *starts, 0], [-1, *sizes, -1])]


def _group(tensors: Sequence[Any], attributes: str, shapes: Sequence[Any]) -> Sequence[Any]:
    """Those of graph networks: rows of a table by index, or sums and maxima of rows with the same index, in groups.

    `attributes`: version, op, type, groups, rows of a table, numbers of a row, indices.
    """
    _, op, _, groups, rows, *_ = attributes.split()
    if op == "gather":
        table, indices = tensors
        return [tf.gather(table, indices, batch_dims=1, axis=1)]
    data, indices, *_ = tensors
    count, offsets = int(groups) * int(rows), tf.range(int(groups), dtype=indices.dtype)[:, None] * int(rows)
    flat = tf.reshape(data, [-1, data.shape[-1]])
    reduce = tf.math.unsorted_segment_max if op == "scatter_max" else tf.math.unsorted_segment_sum
    reduced = reduce(flat, tf.reshape(indices + offsets, [-1]), count)
    return [tf.reshape(reduced, [int(groups), int(rows), data.shape[-1]])]


def _regulate_length(tensors: Sequence[Any], attributes: str, shapes: Sequence[Any]) -> Sequence[Any]:
    """FastSpeech 2's: each column of a sentence as often as its duration says, with zeros behind the last."""
    states, durations = tensors  # sentences x numbers x letters, sentences x letters
    ends = tf.cumsum(tf.cast(durations, tf.int32), axis=1)
    frames = tf.range(int(shapes[0][2]))
    past = tf.cast(ends[:, None, :] <= frames[None, :, None], tf.int32)
    letters = tf.reduce_sum(past, axis=2)  # how many have ended before each frame
    count = int(states.shape[2])
    inside = tf.cast(letters < count, states.dtype)
    found = tf.gather(tf.transpose(states, [0, 2, 1]), tf.minimum(letters, count - 1), batch_dims=1, axis=1)
    return [tf.transpose(found * inside[:, :, None], [0, 2, 1])]


def _solve(tensors: Sequence[Any], attributes: str, shapes: Sequence[Any]) -> Sequence[Any]:
    """Kriging's: many small systems of linear equations, by elimination with the largest number of a column as pivot. A
    system without one solution gets what comes of dividing by zero, as the library's does."""
    matrices, right = tensors
    size = int(matrices.shape[1])
    rows, used, chosen = tf.concat([matrices, right], axis=2), tf.zeros(matrices.shape[:2], matrices.dtype), []
    for step in range(size):
        candidates = tf.abs(rows[:, :, step]) - used * matrices.dtype.max
        pivot = tf.one_hot(tf.argmax(candidates, axis=1), size, dtype=matrices.dtype)
        row = tf.reduce_sum(rows * pivot[:, :, None], axis=1)
        row = row / row[:, step : step + 1]
        others = rows - rows[:, :, step : step + 1] * row[:, None, :]
        is_pivot = tf.cast(pivot[:, :, None], tf.bool)
        rows = tf.raw_ops.SelectV2(condition=is_pivot, t=row[:, None, :], e=others)  # tf.where of TensorFlow 1 differs
        used += pivot
        chosen.append(pivot)
    return [tf.matmul(tf.stack(chosen, axis=1), rows[:, :, size:])]


register_user_op("libcustom_op", _crop_centre)
register_user_op("liblengthRegulator", _regulate_length)
register_user_op("custom_grouped_gather_scatter", _group)
register_user_op("libmatrix_solve_ce_op", _solve)
for _name, _function in block_sparse.OPS.items():
    register_user_op("libblock_sparse", _function, _name)
