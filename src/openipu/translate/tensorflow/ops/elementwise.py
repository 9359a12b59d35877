"""Ops on each element: arithmetic, comparisons, activations and their gradients, which TensorFlow has as ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.translate.kit.arithmetic import power
from openipu.translate.rules import Rule, rule
from openipu.translate.site import Site

Tensor = torch.Tensor
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Digamma": torch.digamma,
    "Elu": F.elu,
    "Erf": torch.erf,
    "Erfc": torch.erfc,
    "Erfinv": torch.erfinv,
    "Exp": torch.exp,
    "Expm1": torch.expm1,
    "Floor": torch.floor,
    "Inv": torch.reciprocal,
    "Invert": torch.bitwise_not,
    "IsFinite": torch.isfinite,
    "IsInf": torch.isinf,
    "IsNan": torch.isnan,
    "Lgamma": torch.lgamma,
    "Log": torch.log,
    "Log1p": torch.log1p,
    "LogicalNot": torch.logical_not,
    "Ndtri": torch.special.ndtri,
    "Neg": torch.neg,
    "OnesLike": torch.ones_like,
    "Reciprocal": torch.reciprocal,
    "Relu": torch.relu,
    "Relu6": F.relu6,
    "Rint": torch.round,
    "Round": torch.round,
    "Rsqrt": torch.rsqrt,
    "Selu": F.selu,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "Softsign": F.softsign,
    "Sqrt": torch.sqrt,
    "Square": torch.square,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
}

_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": torch.add,
    "AddV2": torch.add,
    "ApproximateEqual": lambda a, b: (a - b).abs() < 1e-5,
    "Atan2": torch.atan2,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
    "Div": lambda a, b: _divide(a, b, "trunc"),
    "DivNoNan": lambda a, b: torch.where(b == 0, torch.zeros_like(a + b), a / b),
    "FloorDiv": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "FloorMod": torch.remainder,
    "Greater": torch.gt,
    "GreaterEqual": torch.ge,
    "LeftShift": torch.bitwise_left_shift,
    "Less": torch.lt,
    "LessEqual": torch.le,
    "LogicalAnd": torch.logical_and,
    "LogicalOr": torch.logical_or,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "Mod": torch.fmod,
    "Mul": torch.mul,
    "MulNoNan": lambda a, b: torch.where(b == 0, torch.zeros_like(a * b), a * b),
    "Pow": power,
    "RealDiv": torch.div,
    "RightShift": torch.bitwise_right_shift,
    "SquaredDifference": lambda a, b: torch.square(a - b),
    "Sub": torch.sub,
    "TruncateDiv": lambda a, b: _divide(a, b, "trunc"),
    "TruncateMod": torch.fmod,
    "Xdivy": lambda a, b: torch.where(a == 0, torch.zeros_like(a / b), a / b),
    "Xlogy": torch.xlogy,
    "Xlog1py": torch.special.xlog1py,
    # (gradient, input or result) -> gradient
    "ReluGrad": lambda g, x: torch.ops.aten.threshold_backward(g, x, 0),
    "Relu6Grad": lambda g, x: g * ((x > 0) & (x < 6)).to(g.dtype),
    "EluGrad": lambda g, y: torch.where(y < 0, (y + 1) * g, g),
    "SeluGrad": lambda g, y: torch.where(y < 0, g * (y + _SELU_SCALE * _SELU_ALPHA), g * _SELU_SCALE),
    "SoftplusGrad": lambda g, x: g * torch.sigmoid(x),
    "SoftsignGrad": lambda g, x: g / torch.square(1 + x.abs()),
    # (result, gradient) -> gradient
    "InvGrad": lambda y, g: -g * y * y,
    "ReciprocalGrad": lambda y, g: -g * y * y,
    "RsqrtGrad": lambda y, g: g * -0.5 * y * y * y,
    "SigmoidGrad": lambda y, g: torch.ops.aten.sigmoid_backward(g, y),
    "SqrtGrad": lambda y, g: g * 0.5 / y,
    "TanhGrad": lambda y, g: torch.ops.aten.tanh_backward(g, y),
}

_PASSED_ON = (
    *("Identity", "StopGradient", "PreventGradient", "Snapshot", "CheckNumerics", "EnsureShape"),
    *("PlaceholderWithDefault", "DebugGradientIdentity"),
)


def _divide(a: Tensor, b: Tensor, rounding: str) -> Tensor:
    return torch.div(a, b) if a.dtype.is_floating_point else torch.div(a, b, rounding_mode=rounding)


def _apply_unary(function: Callable[[Tensor], Tensor]) -> Callable[[Site], Tensor]:
    return lambda site: function(site.input(0))


def _apply_binary(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Site], Tensor]:
    return lambda site: function(site.input(0), site.input(1))


def _pass_on(site: Site) -> Sequence[Tensor | None]:
    """The very value: a constant stays one, and it may be a list of tensors."""
    return site.inputs[:1]


RULES = [
    *(Rule(op, _apply_unary(function)) for op, function in _UNARY.items()),
    *(Rule(op, _apply_binary(function)) for op, function in _BINARY.items()),
    *(Rule(op, _pass_on) for op in _PASSED_ON),
]


@rule("IdentityN")
def pass_all_on(site: Site) -> list[Tensor | None]:
    return list(site.inputs)


@rule("Equal")
def equal(site: Site) -> Tensor:
    return torch.eq(site.input(0), site.input(1))


@rule("NotEqual")
def differ(site: Site) -> Tensor:
    return torch.ne(site.input(0), site.input(1))


@rule("LeakyRelu")
def leaky_relu(site: Site) -> Tensor:
    return F.leaky_relu(site.input(0), site.number("alpha", 0.2))


@rule("LeakyReluGrad")
def leaky_relu_gradient(site: Site) -> Tensor:
    gradient, x = site.input(0), site.input(1)
    return torch.where(x > 0, gradient, gradient * site.number("alpha", 0.2))


@rule("ClipByValue")
def clip(site: Site) -> Tensor:
    return torch.minimum(torch.maximum(site.input(0), site.input(1)), site.input(2))


@rule("Cast", "Bitcast")
def cast(site: Site) -> Tensor:
    x, wanted = site.input(0), site.get("DstT", None) or site.get("type")
    if site.node.op == "Bitcast":
        return x.view(wanted)
    return x != 0 if wanted is torch.bool and x.dtype is not torch.bool else x.to(wanted)


@rule("SelectV2")
def choose(site: Site) -> Tensor:
    return torch.where(site.input(0), site.input(1), site.input(2))


@rule("Select")
def choose_rows(site: Site) -> Tensor:
    """A condition of one dimension chooses rows."""
    condition, x = site.input(0), site.input(1)
    if 0 < condition.dim() < x.dim():
        condition = condition.reshape([-1, *([1] * (x.dim() - condition.dim()))])
    return torch.where(condition, x, site.input(2))


@rule("Log2")
def logarithm(site: Site) -> Tensor:
    return torch.log(site.input(0)) / math.log(2)
