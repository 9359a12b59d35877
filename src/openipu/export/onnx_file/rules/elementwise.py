"""Pointwise ops.

In: sites. Out: ONNX's op of the same meaning, with operands in the format that PyTorch computes in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from openipu.export.onnx_file.site import Rule, Rules, Site
from openipu.export.onnx_file.writer import Value

_UNARY = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh",
    "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "log": "Log",
    "neg": "Neg", "reciprocal": "Reciprocal", "relu": "Relu", "round": "Round", "sigmoid": "Sigmoid", "sign": "Sign",
    "sgn": "Sign", "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh", "isnan": "IsNaN",
    "logical_not": "Not",
}  # fmt: skip
_BINARY = {"mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min"}
_COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
_BITWISE = {
    "bitwise_and": ("And", "BitwiseAnd"),
    "bitwise_or": ("Or", "BitwiseOr"),
    "bitwise_xor": ("Xor", "BitwiseXor"),
}


def _unary(name: str, op: str) -> Rule:
    def rule(site: Site) -> Value:
        source = site.source
        if name == "logical_not":
            return site.emit(op, _to_bool(site, source))
        if name == "isnan":
            if not source.dtype.is_floating_point:
                return site.fill(False)
            return site.emit(op, source)
        if source.dtype is torch.bool and site.dtype is torch.bool:
            return source
        if not site.dtype.is_floating_point and name in ("ceil", "floor", "round"):
            return source
        return site.emit(op, site.cast(source, site.dtype))

    return rule


def _operands(site: Site) -> tuple[Value, Value]:
    """Both operands in the format of the result."""
    return site.cast(site.source, site.dtype), site.cast(site.other, site.dtype)


def _add(sign: int) -> Rule:
    def rule(site: Site) -> Value:
        left, right = _operands(site)
        alpha = site.arguments.get("alpha", 1)
        if site.dtype is torch.bool:
            return site.emit("Or", left, right)
        if alpha != 1:
            right = site.like("Mul", right, site.number(alpha, site.dtype))
        return site.emit("Add" if sign > 0 else "Sub", left, right)

    return rule


def _reverse_subtract(site: Site) -> Value:
    left, right = _operands(site)
    alpha = site.arguments.get("alpha", 1)
    if alpha != 1:
        left = site.like("Mul", left, site.number(alpha, site.dtype))
    return site.emit("Sub", right, left)


def _binary(op: str) -> Rule:
    def rule(site: Site) -> Value:
        left, right = _operands(site)
        if site.dtype is torch.bool:
            return site.emit("And" if op in ("Mul", "Min") else "Or", left, right)
        return site.emit(op, left, right)

    return rule


def _divide_mode(site: Site) -> Value:
    left, right = _operands(site)
    mode = site.arguments.get("rounding_mode", "floor")
    if mode is None:
        return site.emit("Div", left, right)
    if site.dtype.is_floating_point:
        quotient = site.like("Div", left, right)
        return site.emit("Floor", quotient) if mode == "floor" else _truncate_value(site, quotient)
    quotient = site.like("Div", left, right)  # towards zero
    if mode == "trunc":
        return quotient
    rest = site.like("Sub", left, site.like("Mul", quotient, right))
    zero = site.number(0, site.dtype)
    shape = quotient.shape
    signs = site.make("Xor", [_below(site, rest, zero), _below(site, right, zero)], shape, torch.bool)
    exact = site.make("Equal", [rest, zero], shape, torch.bool)
    uneven = site.make("And", [signs, site.make("Not", [exact], shape, torch.bool)], shape, torch.bool)
    return site.emit("Sub", quotient, site.cast(uneven, site.dtype))


def _below(site: Site, value: Value, bound: Value) -> Value:
    return site.make("Less", [value, bound], value.shape, torch.bool)


def _truncate_value(site: Site, value: Value) -> Value:
    size = site.like("Floor", site.like("Abs", value))
    return site.like("Mul", site.like("Sign", value), size)


def _truncate(site: Site) -> Value:
    return _truncate_value(site, site.source) if site.dtype.is_floating_point else site.source


def _remainder(floor: bool) -> Rule:
    def rule(site: Site) -> Value:
        left, right = _operands(site)
        if not site.dtype.is_floating_point:
            return site.emit("Mod", left, right, fmod=0 if floor else 1)
        if not floor:
            return site.emit("Mod", left, right, fmod=1)
        quotient = site.like("Floor", site.like("Div", left, right))
        return site.emit("Sub", left, site.like("Mul", quotient, right))

    return rule


def _common(site: Site) -> torch.dtype:
    """The format in which two operands are compared."""
    left, right = site.source, site.other
    meta = torch.empty(left.shape, dtype=left.dtype, device="meta")
    if isinstance(right, Value):
        return torch.result_type(meta, torch.empty(right.shape, dtype=right.dtype, device="meta"))
    return torch.result_type(meta, right)


def _compare(op: str, negated: bool = False) -> Rule:
    def rule(site: Site) -> Value:
        common = _common(site)
        if common is torch.bool and op != "Equal":
            common = torch.int32
        left, right = site.cast(site.source, common), site.cast(site.other, common)
        if not negated:
            return site.emit(op, left, right)
        return site.emit("Not", site.make(op, [left, right], site.shape, torch.bool))

    return rule


def _to_bool(site: Site, value: Any) -> Value:
    if not isinstance(value, Value):
        return site.number(bool(value), torch.bool)
    return site.cast(value, torch.bool)


def _logical(op: str) -> Rule:
    return lambda site: site.emit(op, _to_bool(site, site.source), _to_bool(site, site.other))


def _bitwise(for_bool: str, for_whole: str) -> Rule:
    return lambda site: site.emit(for_bool if site.dtype is torch.bool else for_whole, *_operands(site))


def _bitwise_not(site: Site) -> Value:
    return site.emit("Not" if site.dtype is torch.bool else "BitwiseNot", site.source)


def _power(site: Site) -> Value:
    exponent = site.arguments["exponent"]
    base = site.cast(site.source, site.dtype)
    if exponent == 2:
        return site.emit("Mul", base, base)
    if exponent == 0.5:
        return site.emit("Sqrt", base)
    return site.emit("Pow", base, site.cast(exponent, site.dtype))


def _clamp(site: Site) -> Value:
    value = site.cast(site.source, site.dtype)
    for name, op in (("min", "Max"), ("max", "Min")):
        bound = site.arguments.get(name)
        if bound is not None:
            value = site.like(op, value, site.cast(bound, site.dtype))
    return value if value.shape == site.shape else site.expand(value, site.shape)


def _where(site: Site) -> Value:
    chosen, otherwise = (site.cast(site.arguments[name], site.dtype) for name in ("self", "other"))
    return site.emit("Where", site.cast(site.condition, torch.bool), chosen, otherwise)


def _masked_fill(site: Site) -> Value:
    return site.emit("Where", site.mask, site.cast(site.value, site.dtype), site.source)


def _gelu(site: Site) -> Value:
    source, half, one = site.source, site.number(0.5, site.dtype), site.number(1.0, site.dtype)
    if site.approximate == "tanh":
        cube = site.like("Mul", site.like("Mul", source, source), source)
        inner = site.like("Add", source, site.like("Mul", cube, site.number(0.044715, site.dtype)))
        bent = site.like("Tanh", site.like("Mul", inner, site.number(math.sqrt(2 / math.pi), site.dtype)))
    else:
        bent = site.like("Erf", site.like("Mul", source, site.number(math.sqrt(0.5), site.dtype)))
    return site.emit("Mul", site.like("Mul", source, half), site.like("Add", bent, one))


def _leaky(op: str, name: str) -> Callable[[Site], Value]:
    return lambda site: site.emit(op, site.source, alpha=float(site.arguments[name]))


def _copy(site: Site) -> Value:
    return site.cast(site.source, site.dtype)


def _expm1(site: Site) -> Value:
    """exp(x) - 1 to full precision near zero: tanh(x / 2) (exp(x) + 1)."""
    source = site.cast(site.source, site.dtype)
    half = site.like("Tanh", site.like("Mul", source, site.number(0.5, site.dtype)))
    return site.emit("Mul", half, site.like("Add", site.like("Exp", source), site.number(1.0, site.dtype)))


def _log1p(site: Site) -> Value:
    return site.emit("Log", site.like("Add", site.cast(site.source, site.dtype), site.number(1.0, site.dtype)))


def _rsqrt(site: Site) -> Value:
    return site.emit("Reciprocal", site.like("Sqrt", site.cast(site.source, site.dtype)))


def _isinf(site: Site) -> Value:
    return site.emit("IsInf", site.source) if site.source.dtype.is_floating_point else site.fill(False)


RULES: Rules = {
    **{f"aten.{name}": _unary(name, op) for name, op in _UNARY.items()},
    **{f"aten.{name}": _binary(op) for name, op in _BINARY.items()},
    **{f"aten.{name}": _compare(op) for name, op in _COMPARISONS.items()},
    **{f"aten.{name}": _logical(op) for name, op in _LOGICAL.items()},
    **{f"aten.{name}": _bitwise(*ops) for name, ops in _BITWISE.items()},
    "aten.ne": _compare("Equal", negated=True),
    "aten.add": _add(1),
    "aten.sub": _add(-1),
    "aten.rsub": _reverse_subtract,
    "aten.div.Tensor_mode": _divide_mode,
    "aten.div.Scalar_mode": _divide_mode,
    "aten.floor_divide": _divide_mode,
    "aten.remainder": _remainder(True),
    "aten.fmod": _remainder(False),
    "aten.trunc": _truncate,
    "aten.bitwise_not": _bitwise_not,
    "aten.pow": _power,
    "aten.clamp": _clamp,
    "aten.clamp_min": _clamp,
    "aten.clamp_max": _clamp,
    "aten.where.self": _where,
    "aten.masked_fill": _masked_fill,
    "aten.gelu": _gelu,
    "aten.leaky_relu": _leaky("LeakyRelu", "negative_slope"),
    "aten.expm1": _expm1,
    "aten.log1p": _log1p,
    "aten.rsqrt": _rsqrt,
    "aten.isinf": _isinf,
    "aten.clone": _copy,
    "aten.alias": _copy,
    "aten.detach": _copy,
    "aten.copy": lambda site: site.expand(site.cast(site.src, site.dtype), site.shape),
    "aten.lift_fresh_copy": _copy,
    "aten.contiguous": _copy,
    "aten._to_copy": _copy,
    "aten.to": _copy,
    "prims.convert_element_type": lambda site: site.cast(site.a, site.dtype),
}
