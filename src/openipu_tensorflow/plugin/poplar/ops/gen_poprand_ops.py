"""Raw random ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openipu_tensorflow.graphs.device_ops import add_device_op
from openipu_tensorflow.ipu.ops.rand_ops import dropout_with_seed


def ipu_dropout(
    input: Any, rate: float, scale: float, noise_shape: Sequence[int] | None = None, name: str | None = None
) -> tuple[Any, Any, Any]:
    """(result, the seed that was drawn, the result once more)"""
    from tensorflow.python.framework import dtypes

    (seed,) = add_device_op("IpuSeed", [], [(dtypes.int32, [2])])
    return ipu_dropout_with_seed(input, seed, rate, scale, noise_shape)


def ipu_dropout_with_seed(
    input: Any, seed: Any, rate: float, scale: float, noise_shape: Sequence[int] | None = None, name: str | None = None
) -> tuple[Any, Any, Any]:
    """(result, seed, the result once more)"""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops

    value, pair = ops.convert_to_tensor(input), ops.convert_to_tensor(seed)
    made = dropout_with_seed(value, pair, rate, scale, [int(size) for size in noise_shape or ()])
    return made, array_ops.identity(pair), array_ops.identity(made)
