"""Rounding of whole tensors to a number format.

In: float32 tensors. Out: float32 tensors of numbers that the format has, or their codes. Everything is plain ATen
operators on the elements, so a captured graph can hold it and a compiler can fuse it.
"""

from __future__ import annotations

import torch

from openipu.errors import OptionError
from openipu.numerics.formats import FLOAT16, Format, Overflow, Rounding

_CODE_TYPES = {8: torch.uint8, 16: torch.int16, 32: torch.int32}


def round_to_format(
    values: torch.Tensor,
    format: Format = FLOAT16,
    rounding: Rounding = Rounding.NEAREST,
    overflow: Overflow = Overflow.INFINITY,
    bits: torch.Tensor | None = None,
) -> torch.Tensor:
    """The float32 numbers, each replaced by one that the format has.

    `bits` are random int32 numbers of the same shape, for stochastic rounding. Their high bits are used.
    """
    rounding, overflow = Rounding(rounding), Overflow(overflow)
    if rounding is Rounding.STOCHASTIC and bits is None:
        raise OptionError("Stochastic rounding needs random bits: pass an int32 tensor of the shape of the values.")
    if rounding is Rounding.NEAREST:
        return _limit(values, format, overflow).to(format.dtype).to(torch.float32)
    rounded = _truncate(values, format, bits if rounding is Rounding.STOCHASTIC else None)
    return _bound(values, rounded, format, overflow)


def _limit(values: torch.Tensor, format: Format, overflow: Overflow) -> torch.Tensor:
    """What PyTorch's own conversion, which overflows to infinity or else NaN, then rounds as asked for."""
    if overflow is Overflow.SATURATE:
        return torch.where(values.isinf(), values, values.clamp(-format.largest, format.largest))
    if overflow is Overflow.NAN and format.has_infinity:
        # Halfway to the next number that there would be: from here on, rounding to nearest overflows.
        edge = 2.0 * format.largest / (2.0 - 2.0**-format.mantissa_bits) * (1 - 2.0 ** -(format.mantissa_bits + 2))
        return torch.where((values.abs() >= edge) & ~values.isinf(), torch.nan, values)
    return values


def _truncate(values: torch.Tensor, format: Format, bits: torch.Tensor | None) -> torch.Tensor:
    """Clear the bits that the format has no room for, after random ones have been added to them.

    Below its smallest normal number, a format's numbers lie as far apart as at that number. Adding it makes float32
    line up its bits accordingly; it is taken off again at the end.
    """
    dropped = format.dropped_bits
    magnitudes = values.abs()
    offset = torch.where(magnitudes < format.smallest_normal, format.smallest_normal, 0.0)
    codes = (magnitudes + offset).view(torch.int32)
    if bits is not None:
        codes = codes + ((bits >> (32 - dropped)) & ((1 << dropped) - 1))
    kept = (codes & -(1 << dropped)).view(torch.float32) - offset
    if bits is None:  # the sum with the offset was rounded to nearest, and may have been rounded up
        kept = torch.where(kept > magnitudes, kept - format.smallest, kept)
    return torch.copysign(kept, values)


def _bound(values: torch.Tensor, rounded: torch.Tensor, format: Format, overflow: Overflow) -> torch.Tensor:
    """Take care of what is too large, and of infinities and NaNs, whose codes must not be counted on from."""
    if overflow is Overflow.SATURATE:
        bounded = rounded.clamp(-format.largest, format.largest)
    elif overflow is Overflow.INFINITY and format.has_infinity:
        bounded = torch.where(
            rounded.abs() > format.largest, torch.copysign(values.new_full((), torch.inf), values), rounded
        )
    else:
        bounded = torch.where(rounded.abs() > format.largest, torch.nan, rounded)
    special = values if format.has_infinity else values.new_full((), torch.nan)
    bounded = torch.where(values.isfinite(), bounded, special)
    return bounded if format.has_infinity else bounded + 0.0  # no negative zero


def encode_tensor(values: torch.Tensor, format: Format) -> torch.Tensor:
    """The codes of numbers that the format has."""
    return values.to(format.dtype).view(_CODE_TYPES[format.bits])


def decode_tensor(codes: torch.Tensor, format: Format) -> torch.Tensor:
    """The float32 numbers behind codes."""
    return codes.to(_CODE_TYPES[format.bits]).view(format.dtype).to(torch.float32)
