"""Numbers of eight bits with a format and a scale beside them, which may depend on the data of a run.

The byte beside a tensor holds the format in its highest bit (1: four bits of exponent, 0: five), and in its lowest six
the logarithm of the scale: a number is what its bits say, times 2 to that power.
"""

from __future__ import annotations

import torch

from openipu.capture import call_in_graph, is_capturing
from openipu.graph import FunctionCall
from openipu.numerics import FLOAT8_143, FLOAT8_152, cast_from_float8, cast_to_float8
from openipu.translate.rules import rule
from openipu.translate.site import Site

Tensor = torch.Tensor
_FOUR_BITS = 0x80
_SCALE_BITS = 6


def _read(metadata: Tensor) -> tuple[bool, int]:
    """Has it four bits of exponent, and the logarithm of its scale."""
    byte = int(metadata.reshape(-1)[0])
    scale = byte & ((1 << _SCALE_BITS) - 1)
    return bool(byte & _FOUR_BITS), scale - (1 << _SCALE_BITS) if scale >> (_SCALE_BITS - 1) else scale


def _narrow(values: Tensor, metadata: Tensor) -> list[Tensor]:
    four, scale = _read(metadata)
    made = cast_to_float8(values, FLOAT8_143 if four else FLOAT8_152, -scale)
    return [made.view(torch.uint8).clone()]


def _widen(data: Tensor, metadata: Tensor) -> list[Tensor]:
    four, scale = _read(metadata)
    held = data.contiguous().view(FLOAT8_143.dtype if four else FLOAT8_152.dtype)
    return [cast_from_float8(held, torch.float16, scale)]


@rule("IpuConvertToF8", folds=False)
def narrow(site: Site) -> Tensor:
    values, metadata = site.input(0), site.input(1)
    if not is_capturing():
        return _narrow(values, metadata)[0]
    result = torch.empty(values.shape, dtype=torch.uint8, device="meta")
    return call_in_graph(FunctionCall("convert_to_float8", _narrow), [values, metadata], [result])[0]


@rule("IpuConvertFromF8", folds=False)
def widen(site: Site) -> Tensor:
    data, metadata = site.input(0), site.input(1)
    if not is_capturing():
        return _widen(data, metadata)[0]
    result = torch.empty(data.shape, dtype=torch.float16, device="meta")
    return call_in_graph(FunctionCall("convert_from_float8", _widen), [data, metadata], [result])[0]
