"""Ops on each element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from popxl import dtypes
from popxl._ir.operation import SHAPES, VALUES, Rule
from popxl.ops.utils import (
    cast_if_needed,
    check_formats,
    check_tensor_ipu_and_tile_set,
    make_in_place,
    make_one,
)
from popxl.tensor import Tensor, constant

aten = torch.ops.aten
_Tensors = Sequence[Any]


def _from_output(formula: Callable[[Any, Any], Any]) -> Rule:
    """Backward reads the result alone."""

    def differentiate(gradients: _Tensors, inputs: _Tensors, outputs: _Tensors) -> _Tensors:
        return [formula(gradients[0], outputs[0])]

    return Rule(inputs=(), outputs=(0,), formula=differentiate)


_RELU = _from_output(lambda gradient, y: aten.threshold_backward(gradient, y, 0))
_TANH = _from_output(lambda gradient, y: aten.tanh_backward(gradient, y))
_EXP = _from_output(lambda gradient, y: gradient * y)
_SQRT = _from_output(lambda gradient, y: gradient / (2 * y))


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


def abs(t: Tensor) -> Tensor:
    """Absolute values."""
    return make_one("Abs", torch.abs, [t], rule=VALUES)


def ceil(t: Tensor) -> Tensor:
    """The next whole numbers."""
    return make_one("Ceil", torch.ceil, [t], rule=SHAPES)


def floor(t: Tensor) -> Tensor:
    """The whole numbers below."""
    return make_one("Floor", torch.floor, [t], rule=SHAPES)


def cos(t: Tensor) -> Tensor:
    """Cosines."""
    return make_one("Cos", torch.cos, [t], rule=VALUES)


def sin(t: Tensor) -> Tensor:
    """Sines."""
    return make_one("Sin", torch.sin, [t], rule=VALUES)


def exp(t: Tensor) -> Tensor:
    """e to the power of each element."""
    return make_one("Exp", torch.exp, [t], rule=_EXP)


def exp_(t: Tensor) -> Tensor:
    """As `exp`, in place."""
    return make_in_place("Exp", torch.exp, [t], rule=_EXP)


def gelu(t: Tensor) -> Tensor:
    """GELU by its approximation with tanh."""
    return make_one("Gelu", _gelu, [t], rule=VALUES)


def gelu_(t: Tensor) -> Tensor:
    """As `gelu`, in place."""
    return make_in_place("Gelu", _gelu, [t])


def geluerf(t: Tensor) -> Tensor:
    """GELU by the error function."""
    return make_one("GeluErf", F.gelu, [t], rule=VALUES)


def geluerf_(t: Tensor) -> Tensor:
    """As `geluerf`, in place."""
    return make_in_place("GeluErf", F.gelu, [t])


def relu(t: Tensor) -> Tensor:
    """Negative numbers become 0."""
    return make_one("Relu", torch.relu, [t], rule=_RELU)


def relu_(t: Tensor) -> Tensor:
    """As `relu`, in place."""
    return make_in_place("Relu", torch.relu, [t], rule=_RELU)


def swish(t: Tensor) -> Tensor:
    """x times its sigmoid."""
    return make_one("Swish", F.silu, [t], rule=VALUES)


def swish_(t: Tensor) -> Tensor:
    """As `swish`, in place."""
    return make_in_place("Swish", F.silu, [t])


def tanh(t: Tensor) -> Tensor:
    """Hyperbolic tangents."""
    return make_one("Tanh", torch.tanh, [t], rule=_TANH)


def sqrt(t: Tensor) -> Tensor:
    """Square roots."""
    return make_one("Sqrt", torch.sqrt, [t], rule=_SQRT)


def log(t: Tensor) -> Tensor:
    """Natural logarithms."""
    return make_one("Log", torch.log, [t], rule=VALUES)


def log2(t: Tensor) -> Tensor:
    """Logarithms to the base 2."""
    return log(t) / log(constant(2, t.dtype))


def negate(t: Tensor) -> Tensor:
    """The opposite."""
    return make_one("Neg", torch.neg, [t], rule=SHAPES)


def sign(t: Tensor) -> Tensor:
    """-1, 0 or 1."""
    return make_one("Sign", torch.sign, [t], rule=SHAPES)


def isnan(t: Tensor) -> Tensor:
    """Which elements are no numbers."""
    return make_one("IsNaN", torch.isnan, [t])


def isinf(t: Tensor) -> Tensor:
    """Which elements are infinite."""
    return make_one("IsInf", torch.isinf, [t])


def isfinite(t: Tensor) -> Tensor:
    """Which elements are numbers and finite."""
    return make_one("IsFinite", torch.isfinite, [t])


def clip(t: Tensor, min: float = float("-inf"), max: float = float("inf")) -> Tensor:
    """Elements inside of the limits."""
    return make_one("Clip", lambda x: torch.clamp(x, min, max), [t], rule=VALUES)


clamp = clip


def cast(t: Tensor, data_type: dtypes.dtype) -> Tensor:
    """Elements in another format."""
    if data_type in (dtypes.float8_143, dtypes.float8_152):
        raise TypeError(
            f"cast knows no {data_type}: `pow2scale_cast_to_fp8` and `pow2scale_cast_from_fp8` are for numbers of "
            "8 bits."
        )
    rule = SHAPES if data_type.is_floating_point else None
    return make_one("Cast", lambda x: x.to(data_type._held, copy=True), [t], rule=rule, dtypes=[data_type])


def increment_mod(t: Tensor, increment: float, modulus: float) -> Tensor:
    """(x + increment) modulo `modulus`."""
    return make_one("IncrementMod", lambda x: torch.fmod(x + increment, modulus).to(x.dtype), [t])


def increment_mod_(t: Tensor, increment: float, modulus: float) -> Tensor:
    """As `increment_mod`, in place."""
    return make_in_place("IncrementMod", lambda x: torch.fmod(x + increment, modulus), [t])


def _binary(kind: str, function: Any, lhs: Tensor, rhs: Tensor, rule: Rule | None) -> Tensor:
    check_formats(kind, lhs, rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    return make_one(kind, function, [lhs, rhs], rule=rule)


def add(lhs: Tensor, rhs: Tensor) -> Tensor:
    """The sum, broadcast as numpy does."""
    return _binary("Add", torch.add, lhs, rhs, SHAPES)


def add_(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Adds to the first tensor, in place."""
    check_formats("Add", lhs, rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    return make_in_place("Add", torch.add, [lhs, rhs], rule=SHAPES)


def sub(lhs: Tensor, rhs: Tensor) -> Tensor:
    """The difference."""
    return _binary("Sub", torch.sub, lhs, rhs, SHAPES)


def mul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """The product of elements."""
    return _binary("Mul", torch.mul, lhs, rhs, VALUES)


def _divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.div(x, y) if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def div(lhs: Tensor, rhs: Tensor) -> Tensor:
    """The quotient; of whole numbers, without its fraction."""
    return _binary("Div", _divide, lhs, rhs, VALUES)


def fmod(lhs: Tensor, rhs: Tensor) -> Tensor:
    """The remainder, with the sign of the dividend."""
    return _binary("Fmod", torch.fmod, lhs, rhs, VALUES)


def pow(t: Tensor, e: Any) -> Tensor:
    """Elements to the power of `e`."""
    exponent = e if isinstance(e, Tensor) else constant(e)
    if not isinstance(e, Tensor) and exponent.dtype is not t.dtype:
        exponent = constant(e, t.dtype)
    return _binary("Pow", torch.pow, t, exponent, VALUES)


def maximum(*ts: Tensor) -> Tensor:
    """The largest of several tensors, element by element."""

    def run(first: Any, *others: Any) -> Any:
        for other in others:
            first = torch.maximum(first, other)
        return first

    check_formats("Max", *ts)
    check_tensor_ipu_and_tile_set(**{f"addend {place}": addend for place, addend in enumerate(ts)})
    return make_one("Max", run, ts, rule=VALUES)


def scaled_add(X: Tensor, Y: Tensor, a: float | Tensor = 1.0, b: float | Tensor = 1.0) -> Tensor:  # noqa: N803
    """a X + b Y."""
    function, inputs, rule = _scale(X, Y, a, b)
    return make_one("ScaledAdd", function, inputs, rule=rule)


def scaled_add_(X: Tensor, Y: Tensor, a: float | Tensor = 1.0, b: float | Tensor = 1.0) -> Tensor:  # noqa: N803
    """As `scaled_add`, over X."""
    function, inputs, rule = _scale(X, Y, a, b)
    return make_in_place("ScaledAdd", function, inputs, rule=rule if rule is SHAPES else None)


def _scale(x: Tensor, y: Tensor, a: float | Tensor, b: float | Tensor) -> tuple[Any, list[Tensor], Rule]:
    factors = [factor for factor in (a, b) if isinstance(factor, Tensor)]
    check_tensor_ipu_and_tile_set(X=x, Y=y, **{f"factor_{i}": factor for i, factor in enumerate(factors)})

    def run(first: Any, second: Any, *given: Any) -> Any:
        values = iter(given)
        left = next(values).to(first.dtype) if isinstance(a, Tensor) else a
        right = next(values).to(first.dtype) if isinstance(b, Tensor) else b
        scaled = first if isinstance(left, float | int) and left == 1 else first * left
        if isinstance(right, float | int):
            return torch.add(scaled, second, alpha=right)
        return scaled + second * right

    return run, [x, y, *factors], VALUES if factors else SHAPES


def equal(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Where elements are the same."""
    return _binary("Equal", torch.eq, lhs, rhs, None)


def greater(input: Tensor, other: Tensor) -> Tensor:
    """Where elements of the first are larger."""
    return _binary("Greater", torch.gt, input, other, None)


def logical_and(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Where both are true."""
    return _binary("And", torch.logical_and, cast_if_needed(lhs, dtypes.bool), cast_if_needed(rhs, dtypes.bool), None)


def logical_or(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Where one is true."""
    return _binary("Or", torch.logical_or, cast_if_needed(lhs, dtypes.bool), cast_if_needed(rhs, dtypes.bool), None)


def logical_not(t: Tensor) -> Tensor:
    """Where it is false."""
    return make_one("Not", torch.logical_not, [cast_if_needed(t, dtypes.bool)])


def where(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    """Elements of `lhs` where the condition holds, else those of `rhs`."""
    check_formats("Where", lhs, rhs)
    check_tensor_ipu_and_tile_set(condition=condition, lhs=lhs, rhs=rhs)
    return make_one("Where", torch.where, [cast_if_needed(condition, dtypes.bool), lhs, rhs], rule=Rule(inputs=(0,)))
