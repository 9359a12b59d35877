"""`ipu.rand_ops`: dropout."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.graphs.device_ops import add_device_op


def dropout(
    x: Any, rate: float = 0.5, noise_shape: Any = None, seed: Any = None, name: str | None = None, **kwargs: Any
) -> Any:
    """Each element is 0 with probability `rate`, and is divided by 1 - rate otherwise.

    noise_shape: dimensions of size 1 are dropped as a whole. seed: two numbers, of which the same elements follow.
    """
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import nn_ops

    unknown = set(kwargs) - {"ref"}
    if unknown:
        raise TypeError(f"dropout has no argument {sorted(unknown)[0]!r}.")
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < 1:
        raise ValueError(f"The rate must be in the range [0, 1), but is {rate!r}.")
    value = ops.convert_to_tensor(x)
    if not value.dtype.is_floating:
        raise ValueError(f"x must be a floating point tensor, not {value.dtype.name}.")
    noise = _check_noise_shape(value, noise_shape)
    if seed is None:
        return nn_ops.dropout_v2(value, rate=float(rate), noise_shape=noise or None, name=name)
    pair = ops.convert_to_tensor(seed)
    if pair.shape.as_list() != [2]:
        raise ValueError(f"Expected the seed to have a shape of [2], but got {pair.shape}.")
    return dropout_with_seed(value, pair, float(rate), 1 / (1 - float(rate)), noise)


def _check_noise_shape(value: Any, noise_shape: Any) -> list[int]:
    noise = [int(size) for size in noise_shape] if noise_shape is not None else []
    if not noise:
        return []
    if len(noise) != value.shape.rank:
        raise ValueError(f"The length of noise_shape ({len(noise)}) must equal the rank of x. ({value.shape.rank})")
    for size, wanted in zip(value.shape.as_list(), noise, strict=True):
        if wanted not in (1, size):
            raise ValueError(f"Dimension mismatch: noise_shape {noise} has {wanted} where x has {size}; it may be 1.")
    return noise


def dropout_with_seed(value: Any, seed: Any, rate: float, scale: float, noise: list[int]) -> Any:
    """Dropout whose mask follows of a seed; its gradient makes the same mask again."""
    from tensorflow.python.ops import custom_gradient

    options = {"rate": rate, "scale": scale, "noise_shape": noise}

    @custom_gradient.custom_gradient  # type: ignore[untyped-decorator]
    def drop(given: Any) -> Any:
        def backward(upstream: Any) -> Any:
            return add_device_op("IpuDropoutWithSeed", [upstream, seed], [(upstream.dtype, upstream.shape)], options)[0]

        return add_device_op("IpuDropoutWithSeed", [given, seed], [(given.dtype, given.shape)], options)[0], backward

    return drop(value)
