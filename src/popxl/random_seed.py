"""Seeds of a run: arrays for the stream that a program loads its seed from."""

from __future__ import annotations

from typing import Any

import numpy as np

MAX_UINT64 = 2**64 - 1


def create_seeds(
    seed: int, offset: int = 0, batches_per_step: int = 1, gradient_accumulation_factor: int = 1, replicas: int = 1
) -> np.ndarray[Any, Any]:
    """A pair of 32-bit numbers for each batch, accumulation step and replica; dimensions of size 1 are left out.

    Change `offset` from one step to the next for other seeds.
    """
    sizes = (batches_per_step, gradient_accumulation_factor, replicas)
    generator = np.random.default_rng(seed + offset)
    drawn = generator.integers(MAX_UINT64, size=sizes, dtype=np.uint64, endpoint=True)
    halves = np.stack([drawn >> np.uint64(32), drawn & np.uint64(2**32 - 1)], axis=-1)
    return halves.astype(np.uint32).reshape(*(size for size in sizes if size != 1), 2)


def uint64_to_two_uint32(num: int) -> tuple[int, int]:
    """The high and the low half of a number."""
    if not 0 <= num <= MAX_UINT64:
        raise ValueError(f"A seed is a whole number of 64 bits without sign, not {num}.")
    return num >> 32, num & 0xFFFFFFFF


def two_uint32_to_uint64(a: int, b: int) -> int:
    """The number with these halves."""
    if not (0 <= a < 2**32 and 0 <= b < 2**32):
        raise ValueError(f"The halves of a seed are whole numbers of 32 bits without sign, not {a} and {b}.")
    return (a << 32) | b
