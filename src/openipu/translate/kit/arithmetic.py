"""Division, remainder and powers, which differ between frameworks for whole numbers."""

from __future__ import annotations

import torch


def divide(dividend: torch.Tensor, divisor: torch.Tensor) -> torch.Tensor:
    """A quotient; of whole numbers the one towards zero."""
    if dividend.dtype.is_floating_point or dividend.dtype.is_complex:
        return dividend / divisor
    return torch.div(dividend, divisor, rounding_mode="trunc")


def modulo(dividend: torch.Tensor, divisor: torch.Tensor, *, truncating: bool) -> torch.Tensor:
    """A remainder with the sign of the dividend if `truncating`, else with that of the divisor."""
    return torch.fmod(dividend, divisor) if truncating else torch.remainder(dividend, divisor)


def power(base: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """A power in the format of its base, whatever the exponent's."""
    if base.dtype == exponent.dtype:
        return torch.pow(base, exponent)
    if not base.dtype.is_floating_point and exponent.dtype.is_floating_point:
        return torch.pow(base.to(torch.float32), exponent.to(torch.float32)).to(base.dtype)
    return torch.pow(base, exponent.to(base.dtype))
