"""Random bits that are a function of a seed which a program is given, or draws once and uses twice.

In: a seed of two whole numbers, a shape. Out: whole numbers of 31 bits, the same for the same seed. Plain integer ops:
an IPU computes them where it needs them, instead of keeping a mask for backward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

_ROUNDS = ((16, 0xFFFF, 0x7FEB352D), (15, 0x1FFFF, 0x846CA68B - (1 << 32)))  # spread each bit over the high ones
_STEP = 0x9E3779B1 - (1 << 32)  # odd: keeps neighbours apart
LIMIT = 1 << 31


def make_bits(seed: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Numbers from 0 up to `LIMIT`."""
    numbers = torch.arange(math.prod(shape), dtype=torch.int32)
    first, second = seed.to(torch.int32).reshape(-1)[:1], seed.to(torch.int32).reshape(-1)[1:2]
    mixed = _mix(_mix(numbers * _STEP + first) + second)
    return torch.bitwise_and(mixed, LIMIT - 1).reshape(list(shape))


def _mix(value: torch.Tensor) -> torch.Tensor:
    for shift, mask, factor in _ROUNDS:
        high = torch.bitwise_and(torch.bitwise_right_shift(value, shift), mask)
        value = torch.bitwise_xor(value, high) * factor
    high = torch.bitwise_and(torch.bitwise_right_shift(value, 16), 0xFFFF)
    return torch.bitwise_xor(value, high)


def draw_seed() -> torch.Tensor:
    """A seed from the program's own generator."""
    return (torch.rand(2, dtype=torch.float32) * (LIMIT - 128)).to(torch.int32)
