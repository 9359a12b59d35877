"""Arithmetic, comparison, logic and activations: each element of a result depends on those at its place."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.translate.kit.arithmetic import divide, modulo, power
from openipu.translate.kit.casting import cast
from openipu.translate.onnx.formats import find_dtype
from openipu.translate.rules import Rule, rule
from openipu.translate.site import Site

Unary = Callable[[torch.Tensor], torch.Tensor]
Binary = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_UNARY: dict[str, Unary] = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "BitwiseNot": torch.bitwise_not,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "Identity": lambda x: x,
    "IsNaN": torch.isnan,
    "Log": torch.log,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal,
    "Relu": torch.relu,
    "Round": torch.round,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "Softsign": lambda x: x / (1 + torch.abs(x)),
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
    "Mish": lambda x: x * torch.tanh(torch.logaddexp(x, torch.zeros_like(x))),
    "HardSwish": lambda x: x * torch.clamp(x / 6 + 0.5, 0, 1),
}


def multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Half numbers stay half numbers if a single float32 number multiplies them."""
    if {x.dtype, y.dtype} == {torch.float16, torch.float32}:
        single = x if x.dtype is torch.float32 else y
        if single.numel() == 1:
            return (x.to(torch.float32) * y.to(torch.float32)).to(torch.float16)
    return torch.mul(x, y)


_BINARY: dict[str, Binary] = {
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": multiply,
    "Div": divide,
    "Pow": power,
    "PRelu": lambda x, slope: torch.where(x > 0, x, x * slope),
    "And": torch.logical_and,
    "Or": torch.logical_or,
    "Xor": torch.logical_xor,
    "Equal": torch.eq,
    "Greater": torch.gt,
    "Less": torch.lt,
    "GreaterOrEqual": torch.ge,
    "LessOrEqual": torch.le,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
}


_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # torch stores them, and computes nothing with them


def _map(function: Unary) -> Callable[[Site], torch.Tensor]:
    return lambda site: _compute_wide(function, site.input(0))


def _combine(function: Binary) -> Callable[[Site], torch.Tensor]:
    return lambda site: _compute_wide(function, site.input(0), _align(site))


def _compute_wide(function: Callable[..., torch.Tensor], *operands: torch.Tensor) -> torch.Tensor:
    """Unsigned numbers are computed with 64 bits and a sign."""
    dtype = operands[0].dtype
    if dtype not in _UNSIGNED:
        return function(*operands)
    result = function(*(operand.to(torch.int64) if operand.dtype in _UNSIGNED else operand for operand in operands))
    return result.to(dtype) if result.dtype is torch.int64 else result


def _align(site: Site) -> torch.Tensor:
    """The second operand. Before operator set 7 an axis said where its dimensions belong."""
    first, second = site.input(0), site.input(1)
    if site.version >= 7 or not site.get("broadcast", 0) or site.get("axis", None) is None:
        return second
    axis = int(site.get("axis")) % max(first.dim(), 1)
    behind = first.dim() - axis - second.dim()
    if behind < 0:
        site.fail(f"cannot place a tensor of {second.dim()} dimensions at axis {axis} of one with {first.dim()}")
    return second.reshape(*second.shape, *[1] * behind)


RULES = [
    *(Rule(op, _map(function)) for op, function in _UNARY.items()),
    *(Rule(op, _combine(function)) for op, function in _BINARY.items()),
]


@rule("Sum")
def add_all(site: Site) -> torch.Tensor:
    result = site.input(0)
    for position in range(1, site.count):
        result = result + site.input(position)
    return result


@rule("Mean")
def average_all(site: Site) -> torch.Tensor:
    return add_all(site) / site.count


@rule("Max")
def take_largest(site: Site) -> torch.Tensor:
    result = site.input(0)
    for position in range(1, site.count):
        result = _compute_wide(torch.maximum, result, site.input(position))
    return result


@rule("Min")
def take_smallest(site: Site) -> torch.Tensor:
    result = site.input(0)
    for position in range(1, site.count):
        result = _compute_wide(torch.minimum, result, site.input(position))
    return result


@rule("Mod")
def take_modulo(site: Site) -> torch.Tensor:
    truncating = bool(site.get("fmod", 0))
    return _compute_wide(lambda a, b: modulo(a, b, truncating=truncating), site.input(0), site.input(1))


@rule("BitShift")
def shift_bits(site: Site) -> torch.Tensor:
    left = site.get("direction") == "LEFT"
    first, second = site.input(0), site.input(1)
    wide = torch.int64
    shift = torch.bitwise_left_shift if left else torch.bitwise_right_shift
    return shift(first.to(wide), second.to(wide)).to(first.dtype)


@rule("Where")
def choose(site: Site) -> torch.Tensor:
    return torch.where(site.input(0), site.input(1), site.input(2))


@rule("IsInf")
def find_infinite(site: Site) -> torch.Tensor:
    x = site.input(0)
    positive, negative = site.get("detect_positive", 1), site.get("detect_negative", 1)
    found = torch.zeros_like(x, dtype=torch.bool)
    if positive:
        found = found | (x == math.inf)
    if negative:
        found = found | (x == -math.inf)
    return found


@rule("Clip", until=10)
def clip(site: Site) -> torch.Tensor:
    return torch.clamp(site.input(0), site.get("min", None), site.get("max", None))


@rule("Clip", since=11)
def clip_by_tensors(site: Site) -> torch.Tensor:
    x, low, high = site.input(0), site.optional(1), site.optional(2)
    if low is not None:
        x = torch.maximum(x, low.to(x.dtype))
    return x if high is None else torch.minimum(x, high.to(x.dtype))


@rule("LeakyRelu")
def leak(site: Site) -> torch.Tensor:
    return F.leaky_relu(site.input(0), site.get("alpha", 0.01))


@rule("ThresholdedRelu")
def threshold(site: Site) -> torch.Tensor:
    x = site.input(0)
    return torch.where(x > site.get("alpha", 1.0), x, torch.zeros_like(x))


@rule("Elu")
def elu(site: Site) -> torch.Tensor:
    return F.elu(site.input(0), site.get("alpha", 1.0))


@rule("Celu")
def celu(site: Site) -> torch.Tensor:
    return F.celu(site.input(0), site.get("alpha", 1.0))


@rule("Selu")
def selu(site: Site) -> torch.Tensor:
    x = site.input(0)
    alpha, gamma = site.number("alpha", 1.67326319217681884765625), site.number("gamma", 1.05070102214813232421875)
    return gamma * torch.where(x > 0, x, alpha * torch.expm1(x))


@rule("Gelu")
def gelu(site: Site) -> torch.Tensor:
    return F.gelu(site.input(0), approximate=site.get("approximate", "none"))


@rule("Swish")
def swish(site: Site) -> torch.Tensor:
    x = site.input(0)
    return x * torch.sigmoid(x * site.get("alpha", 1.0))


@rule("HardSigmoid")
def hard_sigmoid(site: Site) -> torch.Tensor:
    return torch.clamp(site.get("alpha", 0.2) * site.input(0) + site.get("beta", 0.5), 0, 1)


@rule("Shrink")
def shrink(site: Site) -> torch.Tensor:
    x, bias, limit = site.input(0), site.get("bias", 0.0), site.get("lambd", 0.5)
    zero = torch.zeros_like(x)
    return torch.where(x < -limit, x + bias, torch.where(x > limit, x - bias, zero)).to(x.dtype)


@rule("Cast")
def convert(site: Site) -> torch.Tensor:
    dtype = find_dtype(site.get("to"), f"the result of {site.node.title}")
    return cast(site.input(0), dtype, saturate=bool(site.get("saturate", 1)))


@rule("CastLike")
def convert_alike(site: Site) -> torch.Tensor:
    return cast(site.input(0), site.input(1).dtype, saturate=bool(site.get("saturate", 1)))


@rule("Affine")
def affine(site: Site) -> torch.Tensor:
    return site.number("alpha", 1.0) * site.input(0) + site.number("beta", 0.0)


@rule("CumSum", "CumProd", static=(1,))
def accumulate(site: Site) -> torch.Tensor:
    x, backwards = site.input(0), bool(site.get("reverse", 0))
    axis = site.numbers(1, "axis")[0] % max(x.dim(), 1)
    adds = site.node.op == "CumSum"
    if backwards:
        x = torch.flip(x, (axis,))
    if site.get("exclusive", 0):
        first = torch.full_like(x.narrow(axis, 0, 1), 0 if adds else 1)
        x = torch.cat((first, x.narrow(axis, 0, x.shape[axis] - 1)), axis)
    total = torch.cumsum(x, axis, dtype=x.dtype) if adds else torch.cumprod(x, axis, dtype=x.dtype)
    return torch.flip(total, (axis,)) if backwards else total


@rule("BitCast")
def read_bits(site: Site) -> torch.Tensor:
    return site.input(0).view(find_dtype(site.get("to"), f"the result of {site.node.title}"))


@rule("SwiGLU")
def gate(site: Site) -> torch.Tensor:
    x = site.input(0)
    return x * torch.sigmoid(x * site.get("alpha", 1.0)) * site.input(1)
