"""Conversion between number formats: what lies beyond the largest number of an 8-bit one differs between frameworks."""

from __future__ import annotations

import math

import torch

EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz)


def cast(x: torch.Tensor, dtype: torch.dtype, *, saturate: bool = True) -> torch.Tensor:
    """The nearest numbers of a format. Beyond an 8-bit one lies its largest number or, if not `saturate`, none."""
    if dtype not in EIGHT_BITS or x.dtype is dtype:
        return x.to(dtype)
    wide = x.to(torch.float32)
    largest = torch.finfo(dtype).max
    held = torch.clamp(wide, -largest, largest)  # what is no number stays so
    if saturate:
        return held.to(dtype)
    beyond = math.inf if dtype is torch.float8_e5m2 else math.nan
    outside = wide.abs() > largest + _find_last_step(dtype) / 2
    return torch.where(outside, torch.copysign(torch.tensor(beyond), wide), held).to(dtype)


def _find_last_step(dtype: torch.dtype) -> float:
    """The distance of the two largest numbers of a format."""
    finfo = torch.finfo(dtype)
    return finfo.eps * 2.0 ** math.floor(math.log2(finfo.max))
