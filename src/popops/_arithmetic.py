"""The arithmetic of elementwise operations, as PyTorch calls, by the names of PopLibs.

In: tensors or numbers. Out: tensors. Where C++ and PyTorch differ, C++ counts: integers are divided towards zero,
halves are rounded away from zero, a logical shift brings in zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as functional

_WORD = 0xFFFFFFFF


def _round_away(a: torch.Tensor) -> torch.Tensor:
    return torch.copysign(torch.floor(torch.abs(a) + 0.5), a)


def _cbrt(a: torch.Tensor) -> torch.Tensor:
    return torch.copysign(torch.pow(torch.abs(a), 1.0 / 3.0), a)


def _popcount(a: torch.Tensor) -> torch.Tensor:
    bits = a.to(torch.int64) & _WORD
    bits = bits - ((bits >> 1) & 0x55555555)
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F
    return (((bits * 0x01010101) & _WORD) >> 24).to(a.dtype)


def _count_leading_zeros(a: torch.Tensor) -> torch.Tensor:
    bits = a.to(torch.int64) & _WORD
    for shift in (1, 2, 4, 8, 16):
        bits = bits | (bits >> shift)
    return (32 - _popcount(bits)).to(a.dtype)


def _signum(a: torch.Tensor) -> torch.Tensor:
    return torch.sign(a)


UNARY: Mapping[str, Callable[[Any], Any]] = {
    "abs": torch.abs,
    "asin": torch.asin,
    "bitwiseNot": torch.bitwise_not,
    "cbrt": _cbrt,
    "ceil": torch.ceil,
    "cos": torch.cos,
    "countLeadingZeros": _count_leading_zeros,
    "erf": torch.erf,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "exp2": torch.exp2,
    "floor": torch.floor,
    "geluErf": functional.gelu,
    "inv": torch.reciprocal,
    "isFinite": torch.isfinite,
    "isInf": torch.isinf,
    "isNaN": torch.isnan,
    "log": torch.log,
    "log1p": torch.log1p,
    "logicalNot": torch.logical_not,
    "nearbyint": torch.round,
    "neg": torch.neg,
    "popcount": _popcount,
    "relu": torch.relu,
    "round": _round_away,
    "rsqrt": torch.rsqrt,
    "sigmoid": torch.sigmoid,
    "signum": _signum,
    "sin": torch.sin,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "trunc": torch.trunc,
}


def _tensors(a: Any, b: Any) -> tuple[Any, Any]:
    """Numbers where an operator wants tensors."""
    if not isinstance(a, torch.Tensor):
        a = torch.full_like(b, a)
    elif not isinstance(b, torch.Tensor):
        b = torch.full_like(a, b)
    return a, b


def _divide(a: Any, b: Any) -> Any:
    floating = any(isinstance(x, float) or (isinstance(x, torch.Tensor) and x.is_floating_point()) for x in (a, b))
    if floating:
        return torch.div(a, b) if isinstance(a, torch.Tensor) else torch.mul(torch.reciprocal(b), a)
    return torch.div(*_tensors(a, b), rounding_mode="trunc")


def _shift_right(a: Any, b: Any) -> Any:
    a, b = _tensors(a, b)
    if a.dtype is torch.int64:  # unsigned, widened
        return torch.bitwise_right_shift(a, b)
    return torch.bitwise_right_shift(a.to(torch.int64) & _WORD, b.to(torch.int64)).to(a.dtype)


def _power(a: Any, b: Any) -> Any:
    return torch.pow(a, b)


def _subtract(a: Any, b: Any) -> Any:
    return torch.sub(a, b) if isinstance(a, torch.Tensor) else torch.rsub(b, a)


def _lift(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(*_tensors(a, b))


def _compare(function: Callable[[Any, Any], Any], swapped: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(a, b) if isinstance(a, torch.Tensor) else swapped(b, a)


BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: torch.add(a, b) if isinstance(a, torch.Tensor) else torch.add(b, a),
    "atan2": _lift(torch.atan2),
    "bitwiseAnd": _lift(torch.bitwise_and),
    "bitwiseOr": _lift(torch.bitwise_or),
    "bitwiseXnor": _lift(lambda a, b: torch.bitwise_not(torch.bitwise_xor(a, b))),
    "bitwiseXor": _lift(torch.bitwise_xor),
    "div": _divide,
    "eq": _compare(torch.eq, torch.eq),
    "gt": _compare(torch.gt, torch.lt),
    "gteq": _compare(torch.ge, torch.le),
    "invStdDevToVariance": lambda a, b: torch.sub(torch.reciprocal(torch.mul(a, a)), b),
    "lt": _compare(torch.lt, torch.gt),
    "lteq": _compare(torch.le, torch.ge),
    "logicalAnd": _lift(torch.logical_and),
    "logicalOr": _lift(torch.logical_or),
    "max": _lift(torch.maximum),
    "min": _lift(torch.minimum),
    "mul": lambda a, b: torch.mul(a, b) if isinstance(a, torch.Tensor) else torch.mul(b, a),
    "neq": _compare(torch.ne, torch.ne),
    "pow": _power,
    "rem": lambda a, b: torch.fmod(*_tensors(a, b)),
    "shiftLeft": _lift(torch.bitwise_left_shift),
    "shiftRight": _shift_right,
    "shiftRightSignExtend": _lift(torch.bitwise_right_shift),
    "sub": _subtract,
    "varianceToInvStdDev": lambda a, b: torch.rsqrt(torch.add(a, b)),
}
