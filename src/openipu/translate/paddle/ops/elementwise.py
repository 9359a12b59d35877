"""Arithmetic, comparison, logic and activations: each element of a result depends on those at its place."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.translate.kit.arithmetic import divide, power
from openipu.translate.paddle.calls import Answer, Call, Translate, make_rules, translates

Unary = Callable[[torch.Tensor], torch.Tensor]
Binary = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _round(x: torch.Tensor) -> torch.Tensor:
    """Halves go away from zero, as in C."""
    return torch.copysign(torch.floor(x.abs() + 0.5), x)


_UNARY: dict[str, Unary] = {
    "abs": torch.abs,
    "acos": torch.acos,
    "acosh": torch.acosh,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "assign": lambda x: x.clone(),
    "atan": torch.atan,
    "atanh": torch.atanh,
    "bitwise_not": torch.bitwise_not,
    "ceil": torch.ceil,
    "cos": torch.cos,
    "cosh": torch.cosh,
    "detach": lambda x: x.detach(),
    "erf": torch.erf,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "floor": torch.floor,
    "identity": lambda x: x,
    "isfinite_v2": torch.isfinite,
    "isinf_v2": torch.isinf,
    "isnan_v2": torch.isnan,
    "log": torch.log,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "logical_not": torch.logical_not,
    "logsigmoid": F.logsigmoid,
    "reciprocal": torch.reciprocal,
    "relu": torch.relu,
    "round": _round,
    "rsqrt": torch.rsqrt,
    "share_data": lambda x: x.detach(),
    "sigmoid": torch.sigmoid,
    "sign": torch.sign,
    "silu": F.silu,
    "sin": torch.sin,
    "sinh": torch.sinh,
    "softsign": lambda x: x / (1 + torch.abs(x)),
    "sqrt": torch.sqrt,
    "square": torch.square,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "tanh_shrink": lambda x: x - torch.tanh(x),
    "trunc": torch.trunc,
}
_BINARY: dict[str, Binary] = {
    "atan2": torch.atan2,
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "elementwise_add": torch.add,
    "elementwise_div": divide,
    "elementwise_floordiv": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "elementwise_fmax": torch.fmax,
    "elementwise_fmin": torch.fmin,
    "elementwise_max": torch.maximum,
    "elementwise_min": torch.minimum,
    "elementwise_mod": torch.remainder,
    "elementwise_mul": torch.mul,
    "elementwise_pow": power,
    "elementwise_sub": torch.sub,
    "equal": torch.eq,
    "greater_equal": torch.ge,
    "greater_than": torch.gt,
    "less_equal": torch.le,
    "less_than": torch.lt,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
    "not_equal": torch.ne,
}


def align(x: torch.Tensor, y: torch.Tensor, axis: int) -> torch.Tensor:
    """The second operand, its dimensions beginning at an axis of the first; -1: ending where that ends."""
    if axis == -1 or y.dim() >= x.dim():
        return y
    sizes = list(y.shape)
    while sizes and sizes[-1] == 1 and axis + len(sizes) > x.dim():
        sizes.pop()
    return y.reshape(*sizes, *[1] * (x.dim() - axis - len(sizes)))


def _map(function: Unary) -> Translate:
    return lambda call: function(call.tensor("X"))


def _combine(function: Binary) -> Translate:
    def compute(call: Call) -> Answer:
        x, y, axis = call.tensor("X"), call.tensor("Y"), call.whole("axis", -1)
        if axis != -1 and x.dim() < y.dim():
            return function(align(y, x, axis), y)
        return function(x, align(x, y, axis))

    return compute


RULES = [
    *make_rules({op: _map(function) for op, function in _UNARY.items()}),
    *make_rules({op: _combine(function) for op, function in _BINARY.items()}),
]


@translates("sum", "add_n")
def add_all(call: Call) -> Answer:
    total, *others = call.tensors("X")
    for other in others:
        total = total + other
    return total


@translates("scale")
def scale(call: Call) -> Answer:
    x = call.tensor("X")
    factor: torch.Tensor | float = call.tensor("ScaleTensor") if call.has("ScaleTensor") else call.number("scale", 1.0)
    bias = call.number("bias")
    if not x.dtype.is_floating_point and not isinstance(factor, torch.Tensor):
        whole, more = int(factor), int(bias)
        return x * whole + more if call.flag("bias_after_scale", True) else (x + more) * whole
    if isinstance(factor, torch.Tensor):
        factor = factor.to(x.dtype).reshape(())
    if bias == 0:
        return x if not isinstance(factor, torch.Tensor) and factor == 1.0 else x * factor
    return x * factor + bias if call.flag("bias_after_scale", True) else (x + bias) * factor


def _fit(bound: float, dtype: torch.dtype) -> float:
    """A bound as a number of a format: half has no more than 65504, and whole numbers no fractions."""
    limits: torch.finfo | torch.iinfo = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    held = min(max(bound, limits.min), limits.max)
    return held if dtype.is_floating_point else int(held)


@translates("clip")
def clip(call: Call) -> Answer:
    x = call.tensor("X")
    low: torch.Tensor | float = call.tensor("Min") if call.has("Min") else _fit(call.number("min"), x.dtype)
    high: torch.Tensor | float = call.tensor("Max") if call.has("Max") else _fit(call.number("max"), x.dtype)
    x = torch.maximum(x, low.to(x.dtype)) if isinstance(low, torch.Tensor) else torch.clamp(x, min=low)
    return torch.minimum(x, high.to(x.dtype)) if isinstance(high, torch.Tensor) else torch.clamp(x, max=high)


@translates("brelu", "hard_tanh")
def bounded_relu(call: Call) -> Answer:
    return torch.clamp(call.tensor("X"), call.number("t_min"), call.number("t_max", 24.0))


@translates("relu6")
def relu6(call: Call) -> Answer:
    return torch.clamp(call.tensor("X"), 0.0, call.number("threshold", 6.0))


@translates("leaky_relu")
def leaky_relu(call: Call) -> Answer:
    return F.leaky_relu(call.tensor("X"), call.number("alpha", 0.02))


@translates("elu")
def elu(call: Call) -> Answer:
    return F.elu(call.tensor("X"), call.number("alpha", 1.0))


@translates("celu")
def celu(call: Call) -> Answer:
    return F.celu(call.tensor("X"), call.number("alpha", 1.0))


@translates("selu")
def selu(call: Call) -> Answer:
    x = call.tensor("X")
    alpha, scaled = call.number("alpha", 1.6732632423543772), call.number("scale", 1.0507009873554805)
    return scaled * torch.where(x > 0, x, alpha * torch.expm1(x))


@translates("gelu")
def gelu(call: Call) -> Answer:
    return F.gelu(call.tensor("X"), approximate="tanh" if call.flag("approximate") else "none")


@translates("hard_sigmoid")
def hard_sigmoid(call: Call) -> Answer:
    return torch.clamp(call.tensor("X") * call.number("slope", 0.2) + call.number("offset", 0.5), 0.0, 1.0)


@translates("hard_swish")
def hard_swish(call: Call) -> Answer:
    x = call.tensor("X")
    limit, scaled, offset = call.number("threshold", 6.0), call.number("scale", 6.0), call.number("offset", 3.0)
    return x * torch.clamp(x + offset, 0.0, limit) / scaled


@translates("swish")
def swish(call: Call) -> Answer:
    x = call.tensor("X")
    return x * torch.sigmoid(x * call.number("beta", 1.0))


@translates("softplus")
def softplus(call: Call) -> Answer:
    return F.softplus(call.tensor("X"), call.number("beta", 1.0), call.number("threshold", 20.0))


@translates("mish")
def mish(call: Call) -> Answer:
    x = call.tensor("X")
    return x * torch.tanh(F.softplus(x, 1.0, call.number("threshold", 20.0)))


@translates("stanh")
def scaled_tanh(call: Call) -> Answer:
    return call.number("scale_b", 1.7159) * torch.tanh(call.tensor("X") * call.number("scale_a", 0.67))


@translates("hard_shrink")
def hard_shrink(call: Call) -> Answer:
    x = call.tensor("X")
    return torch.where(x.abs() > call.number("threshold", 0.5), x, torch.zeros_like(x))


@translates("softshrink", "soft_shrink")
def soft_shrink(call: Call) -> Answer:
    x, limit = call.tensor("X"), call.number("lambda", 0.5)
    zero = torch.zeros_like(x)
    return torch.where(x > limit, x - limit, torch.where(x < -limit, x + limit, zero))


@translates("thresholded_relu")
def thresholded_relu(call: Call) -> Answer:
    x = call.tensor("X")
    return torch.where(x > call.number("threshold", 1.0), x, torch.full_like(x, call.number("value")))


@translates("soft_relu")
def soft_relu(call: Call) -> Answer:
    limit = call.number("threshold", 40.0)
    return torch.log1p(torch.exp(torch.clamp(call.tensor("X"), -limit, limit)))


@translates("pow")
def raise_to(call: Call) -> Answer:
    return torch.pow(call.tensor("X"), call.scalar("factor", "FactorTensor", 1.0))


@translates("prelu")
def prelu(call: Call) -> Answer:
    x, slope, mode = call.tensor("X"), call.tensor("Alpha"), call.get("mode", "all")
    if mode == "channel" and slope.numel() > 1:
        last = str(call.get("data_format", "NCHW")).endswith("C") and x.dim() > 2
        slope = slope.reshape(-1) if last else slope.reshape(1, -1, *[1] * (x.dim() - 2))
    elif mode == "element":
        slope = slope.reshape(1, *x.shape[1:]) if slope.numel() == math.prod(x.shape[1:]) else slope
    else:
        slope = slope.reshape(())
    return torch.where(x > 0, x, x * slope)


@translates("cast", "transfer_dtype")
def cast(call: Call) -> Answer:
    return call.tensor("X").to(call.dtype("out_dtype"))


@translates("where")
def choose(call: Call) -> Answer:
    return torch.where(call.tensor("Condition"), call.tensor("X"), call.tensor("Y"))


@translates("increment")
def increment(call: Call) -> Answer:
    x, step = call.tensor("X"), call.number("step", 1.0)
    return x + (step if x.dtype.is_floating_point else int(step))


@translates("maxout")
def maxout(call: Call) -> Answer:
    x, groups = call.tensor("X"), call.whole("groups", 1)
    axis = call.whole("axis", 1) % x.dim()
    sizes = [*x.shape[:axis], x.shape[axis] // groups, groups, *x.shape[axis + 1 :]]
    return x.reshape(sizes).amax(axis + 1)


@translates("equal_all")
def equal_all(call: Call) -> Answer:
    return torch.eq(call.tensor("X"), call.tensor("Y")).all()


@translates("print")
def pass_on(call: Call) -> Answer:
    return call.tensor("In")
