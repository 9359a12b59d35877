"""Matrix products whose partial sums are kept in half.

In: two matrices of half numbers. Out: their product. The matrix unit of an IPU adds up a group of 16 products with more
bits than it stores; with half partials, the running sum is rounded to half after each group.
"""

from __future__ import annotations

import torch

from openipu.errors import InputError
from openipu.numerics.formats import FLOAT16, Overflow
from openipu.numerics.rounding import round_to_format

GROUP = 16  # inputs that the matrix unit adds up before it stores a half partial
CHUNKS = 4  # at most so many roundings of a running sum in the quick form


def choose_chunk(inputs: int) -> int:
    """How many inputs the quick form adds up in float32 before it rounds: whole groups, in `CHUNKS` parts."""
    return GROUP * max(1, -(-inputs // (GROUP * CHUNKS)))


def multiply_with_half_partials(
    left: torch.Tensor, right: torch.Tensor, group: int = GROUP, overflow: Overflow = Overflow.SATURATE
) -> torch.Tensor:
    """The product of matrices, or of stacks of them, with the running sum rounded to half after each group of inputs.

    With the default group it does what one tile does that holds all inputs: slow, and the reference for the quick form,
    which takes larger groups.
    """
    inputs = left.shape[-1]
    if left.dtype is not torch.float16 or right.dtype is not torch.float16 or inputs != right.shape[-2]:
        raise InputError(
            f"Half partials need two half matrices that can be multiplied, not {left.dtype} {tuple(left.shape)} and "
            f"{right.dtype} {tuple(right.shape)}: convert both with .half(), and check the inner sizes."
        )
    wide, narrow = left.to(torch.float32), right.to(torch.float32)
    total = torch.zeros((), dtype=torch.float32)
    for start in range(0, inputs, group):
        part = wide[..., start : start + group] @ narrow[..., start : start + group, :]
        total = round_to_format(total + part, FLOAT16, overflow=overflow)
    return total.to(torch.float16)
