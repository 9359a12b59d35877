"""Random numbers that follow from a seed which the program is given: two whole numbers of 32 bits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from openipu.translate import make_bits
from popart import popart_exception
from popxl import dtypes
from popxl._ir.operation import Rule
from popxl.ops.utils import check_tensor_ipu_and_tile_set, make_one
from popxl.tensor import Tensor, constant

_BITS = 24  # of a float32's fraction
_SEED = Rule(inputs=(1,))  # backward makes the same numbers again


def make_uniform(seed: Any, shape: Iterable[int]) -> Any:
    """Numbers from 0 up to 1 in float32."""
    return torch.bitwise_right_shift(make_bits(seed, list(shape)), 31 - _BITS).to(torch.float32) * 0.5**_BITS


def dropout(t: Tensor, seed_tensor: Tensor, p: float) -> Tensor:
    """Elements are 0 with the probability `p`; the others grow by as much."""
    return _drop("Dropout", t, seed_tensor, t.shape, p)


def shaped_dropout(t: Tensor, seed_tensor: Tensor, shape: Iterable[int], ratio: float) -> Tensor:
    """As `dropout`, with one draw for all elements that a tensor of `shape` is broadcast to."""
    return _drop("ShapedDropout", t, seed_tensor, list(shape), ratio)


def _drop(kind: str, t: Tensor, seed: Tensor, shape: Iterable[int], ratio: float) -> Tensor:
    check_tensor_ipu_and_tile_set(t=t, seed_tensor=seed)
    if not 0 <= ratio < 1:
        raise popart_exception(f"{kind}: the ratio has to lie in 0 to 1, and is {ratio}.")

    def run(x: Any, given: Any) -> Any:
        kept = (make_uniform(given, shape) >= ratio).to(x.dtype)
        return x * (kept * (1.0 / (1.0 - ratio)))

    return make_one(kind, run, [t, seed], rule=_SEED)


def random_uniform(
    seed_tensor: Tensor,
    shape: tuple[int, ...],
    low: float = 0.0,
    high: float = 1.0,
    dtype: dtypes.dtype = dtypes.float32,
) -> Tensor:
    """Numbers between two others."""

    def run(given: Any) -> Any:
        return (make_uniform(given, shape) * (high - low) + low).to(dtype._held)

    return make_one("RandomUniform", run, [seed_tensor], dtypes=[dtype])


def random_normal(
    seed_tensor: Tensor,
    shape: tuple[int, ...],
    mean: float = 0.0,
    std: float = 1.0,
    dtype: dtypes.dtype = dtypes.float32,
) -> Tensor:
    """Numbers of a normal distribution."""

    def run(given: Any) -> Any:
        pair = make_uniform(given, (2, *shape))
        radius = torch.sqrt(-2.0 * torch.log(1.0 - pair[0]))
        return (radius * torch.cos(2.0 * math.pi * pair[1]) * std + mean).to(dtype._held)

    return make_one("RandomNormal", run, [seed_tensor], dtypes=[dtype])


def create_random_seed(seed: Tensor, modifier: Tensor) -> Tensor:
    """A seed that follows from another and a number."""
    check_tensor_ipu_and_tile_set(seed=seed, modifier=modifier)
    if seed.shape != (2,) or seed.dtype is not dtypes.uint32:
        raise ValueError(f"A seed is two numbers of uint32, and this is {seed}.")

    def run(given: Any, number: Any) -> Any:
        moved = given + number.to(torch.int32).reshape(-1)[:1] * 0x632BE5AB + torch.tensor([1, 2], dtype=torch.int32)
        return make_bits(moved, (2,))

    return make_one("ModifyRandomSeed", run, [seed, modifier], dtypes=[dtypes.uint32])


def split_random_seed(seed: Tensor, n: int = 2) -> tuple[Tensor, ...]:
    """As many seeds that follow from one."""
    return tuple(create_random_seed(seed, constant(number, dtypes.uint32)) for number in range(n))
