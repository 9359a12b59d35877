"""Expressions for `popops.map`: placeholders, constants, and operations on them.

In: `_1`, `_2`, numbers, other expressions. Out: `Expr`, which becomes PyTorch calls. Python's operators work too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import torch

from openipu.graph.mapped import choose_format
from poplar import Type
from popops._arithmetic import BINARY, UNARY


class UnaryOpType(Enum):
    ABSOLUTE = "abs"
    ASIN = "asin"
    BITWISE_NOT = "bitwiseNot"
    CBRT = "cbrt"
    CEIL = "ceil"
    COS = "cos"
    COUNT_LEADING_ZEROS = "countLeadingZeros"
    ERF = "erf"
    EXPONENT = "exp"
    EXPONENT_MINUS_ONE = "expm1"
    EXPONENT2 = "exp2"
    FLOOR = "floor"
    GELU_ERF = "geluErf"
    INVERSE = "inv"
    IS_FINITE = "isFinite"
    IS_INF = "isInf"
    IS_NAN = "isNaN"
    LOGARITHM = "log"
    LOGARITHM_ONE_PLUS = "log1p"
    LOGICAL_NOT = "logicalNot"
    NEARBY_INT = "nearbyint"
    NEGATE = "neg"
    POPCOUNT = "popcount"
    RELU = "relu"
    ROUND = "round"
    RSQRT = "rsqrt"
    SIGMOID = "sigmoid"
    SIGNUM = "signum"
    SIN = "sin"
    SQRT = "sqrt"
    SQUARE = "square"
    TAN = "tan"
    TANH = "tanh"
    TRUNC = "trunc"


class BinaryOpType(Enum):
    ADD = "add"
    ATAN2 = "atan2"
    BITWISE_AND = "bitwiseAnd"
    BITWISE_OR = "bitwiseOr"
    BITWISE_XNOR = "bitwiseXnor"
    BITWISE_XOR = "bitwiseXor"
    DIVIDE = "div"
    EQUAL = "eq"
    GREATER_THAN = "gt"
    GREATER_THAN_EQUAL = "gteq"
    INV_STD_DEV_TO_VARIANCE = "invStdDevToVariance"
    LESS_THAN = "lt"
    LESS_THAN_EQUAL = "lteq"
    LOGICAL_AND = "logicalAnd"
    LOGICAL_OR = "logicalOr"
    MAXIMUM = "max"
    MINIMUM = "min"
    MULTIPLY = "mul"
    NOT_EQUAL = "neq"
    POWER = "pow"
    REMAINDER = "rem"
    SHIFT_LEFT = "shiftLeft"
    SHIFT_RIGHT = "shiftRight"
    SHIFT_RIGHT_SIGN_EXTEND = "shiftRightSignExtend"
    SUBTRACT = "sub"
    VARIANCE_TO_INV_STD_DEV = "varianceToInvStdDev"


class TernaryOpType(Enum):
    CLAMP = "clamp"
    SELECT = "select"


class Expr:
    """A value that is calculated from the tensors of a `map`."""

    def evaluate(self, tensors: Sequence[torch.Tensor]) -> Any:
        raise NotImplementedError

    def __add__(self, other: Any) -> Expr:
        return BinaryOp(BinaryOpType.ADD, self, other)

    def __radd__(self, other: Any) -> Expr:
        return BinaryOp(BinaryOpType.ADD, other, self)

    def __sub__(self, other: Any) -> Expr:
        return BinaryOp(BinaryOpType.SUBTRACT, self, other)

    def __rsub__(self, other: Any) -> Expr:
        return BinaryOp(BinaryOpType.SUBTRACT, other, self)

    def __mul__(self, other: Any) -> Expr:
        return BinaryOp(BinaryOpType.MULTIPLY, self, other)

    def __rmul__(self, other: Any) -> Expr:
        return BinaryOp(BinaryOpType.MULTIPLY, other, self)

    def __truediv__(self, other: Any) -> Expr:
        return BinaryOp(BinaryOpType.DIVIDE, self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return BinaryOp(BinaryOpType.DIVIDE, other, self)

    def __neg__(self) -> Expr:
        return UnaryOp(UnaryOpType.NEGATE, self)

    def __lt__(self, other: Any) -> Expr:
        return BinaryOp(BinaryOpType.LESS_THAN, self, other)

    def __gt__(self, other: Any) -> Expr:
        return BinaryOp(BinaryOpType.GREATER_THAN, self, other)


class PlaceHolder(Expr):
    """The tensor number `index` of a `map`, from 1 on."""

    def __init__(self, index: int) -> None:
        self.index = index

    def evaluate(self, tensors: Sequence[torch.Tensor]) -> Any:
        if not 1 <= self.index <= len(tensors):
            raise IndexError(f"the expression uses tensor {self.index}, and there are {len(tensors)}")
        return tensors[self.index - 1]


class Const(Expr):
    """A number."""

    def __init__(self, value: float | int | bool) -> None:
        self.value = value

    def evaluate(self, tensors: Sequence[torch.Tensor]) -> Any:
        return self.value


class UnaryOp(Expr):
    def __init__(self, op: UnaryOpType, a: Any) -> None:
        self.op, self.a = op, as_expr(a)

    def evaluate(self, tensors: Sequence[torch.Tensor]) -> Any:
        return UNARY[self.op.value](self.a.evaluate(tensors))


class BinaryOp(Expr):
    def __init__(self, op: BinaryOpType, a: Any, b: Any) -> None:
        self.op, self.a, self.b = op, as_expr(a), as_expr(b)

    def evaluate(self, tensors: Sequence[torch.Tensor]) -> Any:
        return BINARY[self.op.value](self.a.evaluate(tensors), self.b.evaluate(tensors))


class TernaryOp(Expr):
    """`SELECT`: the first where the third is true, else the second. `CLAMP`: the first, between the others."""

    def __init__(self, op: TernaryOpType, a: Any, b: Any, c: Any) -> None:
        self.op, self.parts = op, (as_expr(a), as_expr(b), as_expr(c))

    def evaluate(self, tensors: Sequence[torch.Tensor]) -> Any:
        a, b, c = (part.evaluate(tensors) for part in self.parts)
        if self.op is TernaryOpType.CLAMP:
            return torch.clamp(a, b, c)
        return torch.where(c, a, b)


class Cast(Expr):
    def __init__(self, a: Any, element: Type) -> None:
        self.a, self.element = as_expr(a), element

    def evaluate(self, tensors: Sequence[torch.Tensor]) -> Any:
        return self.a.evaluate(tensors).to(choose_format(self.element))


def as_expr(value: Any) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, (int, float, bool)):
        return Const(value)
    raise TypeError(f"{value!r} is no part of an expression: use _1, _2, …, numbers and operations on them.")


def _unary(op: UnaryOpType) -> Callable[[Any], Expr]:
    return lambda a: UnaryOp(op, a)


def _binary(op: BinaryOpType) -> Callable[[Any, Any], Expr]:
    return lambda a, b: BinaryOp(op, a, b)


_1, _2, _3, _4, _5, _6, _7, _8, _9, _10 = (PlaceHolder(index) for index in range(1, 11))
_11, _12, _13, _14, _15, _16, _17, _18, _19, _20 = (PlaceHolder(index) for index in range(11, 21))

Abs, Asin, BitwiseNot, Cbrt = map(
    _unary, (UnaryOpType.ABSOLUTE, UnaryOpType.ASIN, UnaryOpType.BITWISE_NOT, UnaryOpType.CBRT)
)
Ceil, Cos, Erf, Exp = map(_unary, (UnaryOpType.CEIL, UnaryOpType.COS, UnaryOpType.ERF, UnaryOpType.EXPONENT))
Expm1, Exp2, Floor, GeluErf = map(
    _unary, (UnaryOpType.EXPONENT_MINUS_ONE, UnaryOpType.EXPONENT2, UnaryOpType.FLOOR, UnaryOpType.GELU_ERF)
)
Inv, IsFinite, IsInf, IsNaN = map(
    _unary, (UnaryOpType.INVERSE, UnaryOpType.IS_FINITE, UnaryOpType.IS_INF, UnaryOpType.IS_NAN)
)
Log, Log1p, Not, NearbyInt = map(
    _unary, (UnaryOpType.LOGARITHM, UnaryOpType.LOGARITHM_ONE_PLUS, UnaryOpType.LOGICAL_NOT, UnaryOpType.NEARBY_INT)
)
Neg, Relu, Round, Rsqrt = map(_unary, (UnaryOpType.NEGATE, UnaryOpType.RELU, UnaryOpType.ROUND, UnaryOpType.RSQRT))
Sigmoid, Signum, Sin, Sqrt = map(_unary, (UnaryOpType.SIGMOID, UnaryOpType.SIGNUM, UnaryOpType.SIN, UnaryOpType.SQRT))
Square, Tan, Tanh, Trunc = map(_unary, (UnaryOpType.SQUARE, UnaryOpType.TAN, UnaryOpType.TANH, UnaryOpType.TRUNC))
Add, Atan2, BitwiseAnd, BitwiseOr, BitwiseXor = map(
    _binary,
    (
        BinaryOpType.ADD,
        BinaryOpType.ATAN2,
        BinaryOpType.BITWISE_AND,
        BinaryOpType.BITWISE_OR,
        BinaryOpType.BITWISE_XOR,
    ),
)
Divide, Equal, Gt, Gte = map(
    _binary,
    (BinaryOpType.DIVIDE, BinaryOpType.EQUAL, BinaryOpType.GREATER_THAN, BinaryOpType.GREATER_THAN_EQUAL),
)
Lt, Lte, And, Or = map(
    _binary,
    (BinaryOpType.LESS_THAN, BinaryOpType.LESS_THAN_EQUAL, BinaryOpType.LOGICAL_AND, BinaryOpType.LOGICAL_OR),
)
Max, Min, Mul, NotEqual = map(
    _binary, (BinaryOpType.MAXIMUM, BinaryOpType.MINIMUM, BinaryOpType.MULTIPLY, BinaryOpType.NOT_EQUAL)
)
Pow, Rem, Shl, Shr, ShrSE, Sub = map(
    _binary,
    (
        BinaryOpType.POWER,
        BinaryOpType.REMAINDER,
        BinaryOpType.SHIFT_LEFT,
        BinaryOpType.SHIFT_RIGHT,
        BinaryOpType.SHIFT_RIGHT_SIGN_EXTEND,
        BinaryOpType.SUBTRACT,
    ),
)


def Select(a: Any, b: Any, condition: Any) -> Expr:
    """`a` where the condition is true, else `b`."""
    return TernaryOp(TernaryOpType.SELECT, a, b, condition)


def Clamp(a: Any, low: Any, high: Any) -> Expr:
    """`a`, and no less than `low` nor more than `high`."""
    return TernaryOp(TernaryOpType.CLAMP, a, low, high)
