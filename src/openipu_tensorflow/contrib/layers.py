"""`tensorflow.contrib.layers`: initializers."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as v1


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = None) -> Any:
    """Glorot's, by its other name."""
    kind = v1.glorot_uniform_initializer if uniform else v1.glorot_normal_initializer
    return kind(seed=seed, dtype=v1.float32 if dtype is None else dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False, seed: int | None = None, dtype: Any = None
) -> Any:
    """He's, with these values."""
    return v1.variance_scaling_initializer(
        scale=factor,
        mode=mode.lower(),
        distribution="uniform" if uniform else "truncated_normal",
        seed=seed,
        dtype=v1.float32 if dtype is None else dtype,
    )
