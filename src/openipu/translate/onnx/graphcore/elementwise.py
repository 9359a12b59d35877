"""Element by element: activations, remainders, bits, rounding, scaling."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.translate.onnx.graphcore.domain import DOMAIN
from openipu.translate.rules import Rule, rule
from openipu.translate.site import Site

_UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Gelu": lambda x: F.gelu(x, approximate="tanh"),
    "GeluErf": F.gelu,
    "Swish": F.silu,
    "Detach": lambda x: x.detach(),
    "NearbyInt": torch.round,  # halves go to the even neighbour
    "Expm1": torch.expm1,
    "Log1p": torch.log1p,
    "BitwiseNot": torch.bitwise_not,
    "Nop": lambda x: x,
    "TensorRemap": lambda x: x,  # where elements lie is the planner's business
}
_BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "Atan2": torch.atan2,
    "Fmod": torch.fmod,  # the sign of the dividend
    "Remainder": torch.remainder,  # the sign of the divisor
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
    "BitwiseXnor": lambda x, y: torch.bitwise_not(torch.bitwise_xor(x, y)),
}


def _map(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Site], torch.Tensor]:
    return lambda site: _compute(function, site.input(0))


def _combine(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[Site], torch.Tensor]:
    return lambda site: _compute(function, site.input(0), site.input(1))


def _compute(function: Callable[..., torch.Tensor], *operands: torch.Tensor) -> torch.Tensor:
    """torch knows little arithmetic of unsigned 32-bit numbers; their bits are those of signed ones."""
    if operands[0].dtype is not torch.uint32:
        return function(*operands)
    return function(*[operand.to(torch.int64) for operand in operands]).to(torch.uint32)


RULES = [
    *(Rule(op, _map(function), domain=DOMAIN) for op, function in _UNARY.items()),
    *(Rule(op, _combine(function), domain=DOMAIN) for op, function in _BINARY.items()),
]


@rule("Round", domain=DOMAIN)
def round_away(site: Site) -> torch.Tensor:
    """To the nearest whole number; halves go away from zero."""
    x = site.input(0)
    return torch.sign(x) * torch.floor(x.abs() + 0.5)


@rule("Scale", domain=DOMAIN)
def scale(site: Site) -> torch.Tensor:
    """Whole numbers stay whole."""
    x = site.input(0)
    return (x * site.number("scale", 1.0)).to(x.dtype)


@rule("ScaledAdd", domain=DOMAIN)
def add_scaled(site: Site) -> torch.Tensor:
    """The factors are attributes, or the third and fourth input."""
    first: torch.Tensor | float = site.input(2) if site.has(2) else site.number("scale0", 1.0)
    second: torch.Tensor | float = site.input(3) if site.has(3) else site.number("scale1", 1.0)
    return site.input(0) * first + site.input(1) * second


@rule("IncrementMod", domain=DOMAIN)
def count_round(site: Site) -> torch.Tensor:
    x = site.input(0)
    increment, modulus = site.number("increment", 1.0), site.number("modulus", 1.0)
    if x.dtype.is_floating_point:
        return torch.fmod(x + increment, modulus)
    return _compute(lambda value: torch.fmod(value + int(increment), int(modulus)), x)


@rule("NormalizeImage", domain=DOMAIN)
def normalise_image(site: Site) -> torch.Tensor:
    """Pixels [..., channels] scaled, shifted and scaled by channel, with a fourth channel of zeros behind three."""
    image, offsets, scales = (site.input(place) for place in range(3))
    if image.shape[-1] > 4:
        site.fail(f"takes at most 4 channels in its last dimension, not {image.shape[-1]}")
    wide = image.to(torch.float16) if image.dtype is torch.uint8 else image
    result = (wide * site.number("scale", 1.0) - offsets) * scales
    return F.pad(result.to(wide.dtype), (0, 4 - image.shape[-1]))
