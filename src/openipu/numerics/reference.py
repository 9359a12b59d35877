"""What each code means and where each number goes, one at a time and slowly.

In: a code, or a number. Out: the number, or the code, by exact fractions. The quick functions in `rounding` are tested
against these for all codes of the 8-bit and 16-bit formats.
"""

from __future__ import annotations

import math
from fractions import Fraction

from openipu.numerics.formats import Format, Overflow, Rounding


def decode_code(code: int, format: Format) -> float:
    """The number behind a code. Every number of every format is a Python float."""
    magnitude_code = code & (format.sign_code - 1)
    negative = bool(code & format.sign_code)
    if negative and magnitude_code == 0 and not format.has_infinity:
        return math.nan
    if format.has_infinity and magnitude_code >= format.infinity_code:
        magnitude = math.inf if magnitude_code == format.infinity_code else math.nan
    else:
        stored = magnitude_code >> format.mantissa_bits
        mantissa = magnitude_code & ((1 << format.mantissa_bits) - 1)
        if stored > 0:
            mantissa |= 1 << format.mantissa_bits
        exponent = max(stored - format.exponent_bias, format.smallest_exponent)
        magnitude = math.ldexp(mantissa, exponent - format.mantissa_bits)
    return -magnitude if negative else magnitude


def encode_number(
    number: float,
    format: Format,
    rounding: Rounding = Rounding.NEAREST,
    overflow: Overflow = Overflow.INFINITY,
    random_bits: int = 0,
) -> int:
    """The code that a number is rounded to.

    `random_bits` are the `format.dropped_bits` random bits of stochastic rounding. It looks at the fraction between the
    two neighbours with as many bits: all there are in a float32, but for numbers below the smallest normal one.
    """
    rounding, overflow = Rounding(rounding), Overflow(overflow)
    if math.isnan(number):
        return format.nan_code
    sign = format.sign_code if math.copysign(1.0, number) < 0 else 0
    if math.isinf(number):
        return sign | format.infinity_code if format.has_infinity else format.nan_code
    magnitude_code = _round_magnitude(Fraction(abs(number)), format, rounding, random_bits)
    if magnitude_code >= format.infinity_code:
        return _encode_overflow(sign, format, overflow)
    if magnitude_code == 0 and not format.has_infinity:
        return 0
    return sign | magnitude_code


def _round_magnitude(magnitude: Fraction, format: Format, rounding: Rounding, random_bits: int) -> int:
    """The code of a positive number, as if there were exponents without end."""
    if magnitude == 0:
        return 0
    exponent = max(_find_exponent(magnitude), format.smallest_exponent)
    steps = magnitude / Fraction(2) ** (exponent - format.mantissa_bits)
    if rounding is Rounding.NEAREST:
        mantissa = round(steps)  # halfway to even, as Python rounds fractions
    elif rounding is Rounding.TOWARD_ZERO:
        mantissa = math.floor(steps)
    else:
        parts = 1 << format.dropped_bits
        mantissa = (round(steps * parts) + random_bits) // parts
    # A mantissa that has grown by a bit carries into the exponent.
    stored = exponent - format.smallest_exponent
    return (stored << format.mantissa_bits) + mantissa


def _find_exponent(magnitude: Fraction) -> int:
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= magnitude else exponent - 1


def _encode_overflow(sign: int, format: Format, overflow: Overflow) -> int:
    if overflow is Overflow.SATURATE:
        return sign | (format.infinity_code - 1)
    if overflow is Overflow.INFINITY and format.has_infinity:
        return sign | format.infinity_code
    return format.nan_code
