"""The number formats of an IPU, as data.

In: nothing. Out: one `Format` for each, and the names of the ways to round a number to it. The 8-bit formats have no
negative zero and no infinity: the code of negative zero is their only NaN, and the largest exponent holds numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch


class Rounding(StrEnum):
    """Which of its two neighbours a number between them becomes."""

    NEAREST = "nearest"  # the nearer one; halfway, the one with an even code
    STOCHASTIC = "stochastic"  # either, the nearer one more often: right on average
    TOWARD_ZERO = "toward zero"  # the smaller one


class Overflow(StrEnum):
    """What a finite number becomes that rounds to more than the largest one. Infinities and NaNs stay what they are."""

    INFINITY = "infinity"  # as IEEE 754 and PyTorch; NaN where the format has no infinity
    SATURATE = "saturate"  # the largest number, as an IPU does unless it is told otherwise
    NAN = "nan"  # as an IPU does with its NaN-on-overflow flag


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format: from the high bit down a sign, an exponent and a mantissa."""

    name: str
    exponent_bits: int
    mantissa_bits: int  # the stored ones: a leading 1 is implied, but for the smallest exponent
    exponent_bias: int  # stored exponent minus bias is the power of two
    has_infinity: bool  # the largest exponent stands for infinity and NaNs; otherwise only negative zero is a NaN
    dtype: torch.dtype  # PyTorch's format with the same codes

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def sign_code(self) -> int:
        """The code with the sign bit alone: negative zero, or NaN."""
        return 1 << (self.bits - 1)

    @property
    def nan_code(self) -> int:
        """The code of the NaN that arithmetic makes."""
        return (self.infinity_code | 1 << (self.mantissa_bits - 1)) if self.has_infinity else self.sign_code

    @property
    def infinity_code(self) -> int:
        """The code of positive infinity, or one past the largest number."""
        exponents = (1 << self.exponent_bits) - (1 if self.has_infinity else 0)
        return exponents << self.mantissa_bits

    @property
    def smallest_exponent(self) -> int:
        """The power of two of the smallest number with an implied 1, and of all below it."""
        return 1 - self.exponent_bias

    @property
    def smallest_normal(self) -> float:
        return 2.0**self.smallest_exponent

    @property
    def smallest(self) -> float:
        """The smallest positive number."""
        return 2.0 ** (self.smallest_exponent - self.mantissa_bits)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        exponent = (self.infinity_code >> self.mantissa_bits) - 1 - self.exponent_bias
        return (2.0 - 2.0**-self.mantissa_bits) * 2.0**exponent

    @property
    def dropped_bits(self) -> int:
        """Bits of a float32 mantissa that the format does not keep."""
        return 23 - self.mantissa_bits


FLOAT32 = Format("float32", 8, 23, 127, True, torch.float32)
FLOAT16 = Format("float16", 5, 10, 15, True, torch.float16)
FLOAT8_143 = Format("float8_143", 4, 3, 8, False, torch.float8_e4m3fnuz)
FLOAT8_152 = Format("float8_152", 5, 2, 16, False, torch.float8_e5m2fnuz)

FORMATS = (FLOAT32, FLOAT16, FLOAT8_143, FLOAT8_152)
