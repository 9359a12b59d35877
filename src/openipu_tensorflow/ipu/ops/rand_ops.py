"""`ipu.rand_ops`: dropout."""

from __future__ import annotations

from typing import Any


def dropout(
    x: Any, rate: float = 0.5, noise_shape: Any = None, seed: Any = None, name: str | None = None, **kwargs: Any
) -> Any:
    """Each element is 0 with probability `rate`, and is divided by 1 - rate otherwise."""
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
    if seed is not None:
        return _drop_with_seed(value, float(rate), noise_shape, seed)
    return nn_ops.dropout_v2(value, rate=float(rate), noise_shape=noise_shape, name=name)


def _drop_with_seed(value: Any, rate: float, noise_shape: Any, seed: Any) -> Any:
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import nn_ops

    pair = ops.convert_to_tensor(seed)
    if pair.shape.as_list() != [2]:
        raise ValueError(f"Expected the seed to have a shape of [2], but got {pair.shape}.")
    return nn_ops.stateless_dropout(value, rate, pair, noise_shape=noise_shape)
