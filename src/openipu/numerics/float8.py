"""Float8 tensors with power-of-two scales, for models and for the host.

In: tensors, a float8 format and the logarithm of a scale. Out: float8 tensors, or float tensors with float8 numbers.
These are plain operators of PyTorch: they can be called inside a model that is captured, and outside. An IPU keeps the
scale beside the tensor; here the caller keeps it.
"""

from __future__ import annotations

import torch

from openipu.errors import InputError, OptionError
from openipu.numerics.formats import FLOAT8_143, FLOAT8_152, FLOAT16, Format, Overflow
from openipu.numerics.rounding import round_to_format

_FORMATS = {format.dtype: format for format in (FLOAT8_143, FLOAT8_152)}
_SCALES = range(-32, 32)  # what fits in the tensor's metadata


def cast_to_float8(
    values: torch.Tensor, format: Format = FLOAT8_143, log2_scale: int = 0, nan_on_overflow: bool = False
) -> torch.Tensor:
    """values * 2^log2_scale, rounded to nearest.

    Numbers that are too large become the largest one, or NaN with `nan_on_overflow`. Infinities become NaN.
    """
    return _scale_and_limit(values, format, log2_scale, nan_on_overflow).to(_check_format(format).dtype)


def cast_from_float8(values: torch.Tensor, dtype: torch.dtype = torch.float16, log2_scale: int = 0) -> torch.Tensor:
    """values * 2^log2_scale as float numbers. To undo a cast, pass the negative of its scale."""
    _find_format(values, "cast_from_float8")
    scale = 2.0 ** _check_scale(log2_scale)
    wide = values.to(torch.float32) * scale
    return _narrow(wide) if dtype is torch.float16 else wide.to(dtype)


def float8_matmul(left: torch.Tensor, right: torch.Tensor, log2_scale: int = 0) -> torch.Tensor:
    """left @ right * 2^log2_scale of float8 matrices, as half numbers.

    The products of float8 numbers are exact, their sums are taken in float32, and the scaled result is rounded to half
    once. The formats of the two may differ: an IPU multiplies activations in 1.4.3 with gradients in 1.5.2.
    """
    for operand in (left, right):
        _find_format(operand, "float8_matmul")
    product = torch.matmul(left.to(torch.float32), right.to(torch.float32))
    return _narrow(product * 2.0 ** _check_scale(log2_scale))


def quantise_to_float8(
    values: torch.Tensor, format: Format = FLOAT8_143, log2_scale: int = 0, nan_on_overflow: bool = False
) -> torch.Tensor:
    """The values as they come back from a float8 tensor with this scale, in their own format, for training.

    The gradient passes unchanged, as if nothing had been rounded.
    """
    rounded = _scale_and_limit(values.detach(), format, log2_scale, nan_on_overflow).to(_check_format(format).dtype)
    restored = (rounded.to(torch.float32) * 2.0**-log2_scale).to(values.dtype)
    return restored + (values - values.detach())  # zero, but for its gradient


def quantise_gradient_to_float8(values: torch.Tensor, format: Format = FLOAT8_152, log2_scale: int = 0) -> torch.Tensor:
    """The values, unchanged. Their gradient is rounded to float8 numbers on its way back, and saturates."""
    _check_format(format)
    _check_scale(log2_scale)
    result: torch.Tensor = _QuantiseGradient.apply(values, format, log2_scale)  # type: ignore[no-untyped-call]
    return result


class _QuantiseGradient(torch.autograd.Function):
    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, values: torch.Tensor, *settings: object) -> torch.Tensor:
        context.settings = settings  # type: ignore[attr-defined]
        return values.view_as(values)

    @staticmethod
    def backward(
        context: torch.autograd.function.FunctionCtx, *gradients: torch.Tensor
    ) -> tuple[torch.Tensor, None, None]:
        format, log2_scale = context.settings  # type: ignore[attr-defined]
        return quantise_to_float8(gradients[0], format, log2_scale), None, None


def choose_float8_scale(values: torch.Tensor, format: Format = FLOAT8_143) -> int:
    """The log2_scale with the smallest mean square error, for a tensor on the host; the largest one where several are.

    Use it on samples, before a model is captured: inside a model, values are not known yet.
    """
    _check_format(format)
    if values.numel() == 0 or not bool(values.isfinite().all()):
        raise InputError(
            "A float8 scale can only be chosen for finite numbers: check the tensor for NaNs and infinities."
        )
    exact = values.detach().to(torch.float32)
    errors = {}
    for log2_scale in _SCALES:
        limited = _scale_and_limit(exact, format, log2_scale, nan_on_overflow=False)
        restored = limited.to(format.dtype).to(torch.float32) * 2.0**-log2_scale
        errors[log2_scale] = (restored - exact).double().square().mean().item()
    best = min(errors.values())
    return max(log2_scale for log2_scale, error in errors.items() if error == best)


def _scale_and_limit(values: torch.Tensor, format: Format, log2_scale: int, nan_on_overflow: bool) -> torch.Tensor:
    """Scaled float32 numbers that PyTorch's own conversion to float8, which overflows to NaN, rounds as wanted."""
    _check_format(format)
    scale = 2.0 ** _check_scale(log2_scale)
    if not values.is_floating_point() or values.dtype in _FORMATS:
        raise InputError(f"A float8 tensor is made of half or float numbers, not {values.dtype}: convert them first.")
    wide = values.to(torch.float32)
    if nan_on_overflow:
        return wide * scale
    limit = format.largest / scale
    return torch.where(wide.isinf(), wide, wide.clamp(-limit, limit)) * scale


def _narrow(wide: torch.Tensor) -> torch.Tensor:
    return round_to_format(wide, FLOAT16, overflow=Overflow.SATURATE).to(torch.float16)


def _check_format(format: Format) -> Format:
    if format not in (FLOAT8_143, FLOAT8_152):
        name = getattr(format, "name", repr(format))
        raise OptionError(f"{name} is no float8 format: use openipu.numerics.FLOAT8_143 or FLOAT8_152.")
    return format


def _check_scale(log2_scale: int) -> int:
    if not isinstance(log2_scale, int) or log2_scale not in _SCALES:
        raise OptionError(
            f"log2_scale must be a whole number from {_SCALES.start} to {_SCALES.stop - 1}, not {log2_scale!r}: "
            "the scale is 2 to its power, so that 1 doubles the values."
        )
    return log2_scale


def _find_format(values: torch.Tensor, function: str) -> Format:
    if values.dtype not in _FORMATS:
        raise InputError(f"{function} takes float8 tensors, not {values.dtype}: make them with cast_to_float8.")
    return _FORMATS[values.dtype]
