"""Elementwise operations: `map` over an expression, and each operation by name, in three forms.

In: tensors or numbers. Out: a new tensor; with `…InPlace` the first tensor; with `…WithOutput` a tensor of the user's.
Shapes are broadcast as in numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from openipu.graph.mapped import BOOL, INT, UNSIGNED_INT
from poplar import Graph, Tensor, Type, type_error
from poplar._errors import poplar_error
from poplar._library import Target, call_library
from popops import expr as expressions
from popops.expr import BinaryOpType, Expr, TernaryOpType, UnaryOpType

Made = Callable[..., Any]

_PREDICATES = {
    "isFinite",
    "isInf",
    "isNaN",
    "logicalNot",
    "logicalAnd",
    "logicalOr",
    "eq",
    "neq",
    "gt",
    "gteq",
    "lt",
    "lteq",
}


def map(
    graph: Graph, expression: Any, tensors: Sequence[Any], prog: Target, name: str = "", options: Any = None
) -> Tensor:
    """A new tensor from an expression over `_1`, `_2`, …"""
    return apply(graph, "popops::map", _as_expression(expression), tensors, prog, name, None)


def mapInPlace(
    graph: Graph, expression: Any, tensors: Sequence[Any], prog: Target, name: str = "", options: Any = None
) -> None:
    """The same, written to the first tensor."""
    apply(graph, "popops::mapInPlace", _as_expression(expression), tensors, prog, name, tensors[0])


def mapWithOutput(
    graph: Graph,
    expression: Any,
    tensors: Sequence[Any],
    out: Tensor,
    prog: Target,
    name: str = "",
    options: Any = None,
) -> None:
    """The same, written to a tensor of the user's."""
    apply(graph, "popops::mapWithOutput", _as_expression(expression), tensors, prog, name, out)


def _as_expression(given: Any) -> Expr:
    if isinstance(given, UnaryOpType):
        return expressions.UnaryOp(given, expressions._1)
    if isinstance(given, BinaryOpType):
        return expressions.BinaryOp(given, expressions._1, expressions._2)
    if isinstance(given, TernaryOpType):
        return expressions.TernaryOp(given, expressions._1, expressions._2, expressions._3)
    return expressions.as_expr(given)


def apply(
    graph: Graph, function: str, expression: Expr, operands: Sequence[Any], prog: Target, name: str, out: Tensor | None
) -> Tensor:
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    if not tensors:
        raise poplar_error(f"{function} needs at least one tensor.")
    types = {tensor.elementType().name for tensor in tensors if tensor.elementType() is not BOOL}
    if len(types) > 1:
        raise type_error(f"{function}: element types differ ({', '.join(sorted(types))}). Cast with popops.cast.")

    def traced(*given: Any) -> Any:
        arrived = iter(given)
        return expression.evaluate([next(arrived) if isinstance(one, Tensor) else one for one in operands])

    outputs = None if out is None else [out]
    wanted = _choose_type(expression, tensors)
    return call_library(graph, prog, function, traced, tensors, outputs=outputs, types=[wanted], name=name)[0]


def _choose_type(expression: Expr, tensors: Sequence[Tensor]) -> Type | None:
    if isinstance(expression, (expressions.UnaryOp, expressions.BinaryOp)):
        if expression.op.value in _PREDICATES:
            return BOOL
        if expression.op.value in ("popcount", "countLeadingZeros"):
            return UNSIGNED_INT if tensors[0].elementType() is UNSIGNED_INT else INT
    if isinstance(expression, expressions.Cast):
        return expression.element
    return None


def _unary(op: UnaryOpType) -> tuple[Made, Made, Made]:
    function, expression = f"popops::{op.value}", expressions.UnaryOp(op, expressions._1)

    def plain(graph: Graph, a: Tensor, prog: Target, name: str = "", options: Any = None) -> Tensor:
        return apply(graph, function, expression, [a], prog, name, None)

    def in_place(graph: Graph, a: Tensor, prog: Target, name: str = "", options: Any = None) -> None:
        apply(graph, f"{function}InPlace", expression, [a], prog, name, a)

    def with_output(graph: Graph, a: Tensor, out: Tensor, prog: Target, name: str = "", options: Any = None) -> None:
        apply(graph, f"{function}WithOutput", expression, [a], prog, name, out)

    return plain, in_place, with_output


def _binary(op: BinaryOpType) -> tuple[Made, Made, Made]:
    function, expression = f"popops::{op.value}", expressions.BinaryOp(op, expressions._1, expressions._2)

    def plain(graph: Graph, a: Any, b: Any, prog: Target, name: str = "", options: Any = None) -> Tensor:
        return apply(graph, function, expression, [a, b], prog, name, None)

    def in_place(graph: Graph, a: Tensor, b: Any, prog: Target, name: str = "", options: Any = None) -> None:
        apply(graph, f"{function}InPlace", expression, [a, b], prog, name, a)

    def with_output(
        graph: Graph, a: Any, b: Any, out: Tensor, prog: Target, name: str = "", options: Any = None
    ) -> None:
        apply(graph, f"{function}WithOutput", expression, [a, b], prog, name, out)

    return plain, in_place, with_output


abs, absInPlace, absWithOutput = _unary(UnaryOpType.ABSOLUTE)
asin, asinInPlace, asinWithOutput = _unary(UnaryOpType.ASIN)
bitwiseNot, bitwiseNotInPlace, bitwiseNotWithOutput = _unary(UnaryOpType.BITWISE_NOT)
cbrt, cbrtInPlace, cbrtWithOutput = _unary(UnaryOpType.CBRT)
ceil, ceilInPlace, ceilWithOutput = _unary(UnaryOpType.CEIL)
cos, cosInPlace, cosWithOutput = _unary(UnaryOpType.COS)
countLeadingZeros, countLeadingZerosInPlace, countLeadingZerosWithOutput = _unary(UnaryOpType.COUNT_LEADING_ZEROS)
erf, erfInPlace, erfWithOutput = _unary(UnaryOpType.ERF)
exp, expInPlace, expWithOutput = _unary(UnaryOpType.EXPONENT)
expm1, expm1InPlace, expm1WithOutput = _unary(UnaryOpType.EXPONENT_MINUS_ONE)
exp2, exp2InPlace, exp2WithOutput = _unary(UnaryOpType.EXPONENT2)
floor, floorInPlace, floorWithOutput = _unary(UnaryOpType.FLOOR)
geluErf, geluErfInPlace, geluErfWithOutput = _unary(UnaryOpType.GELU_ERF)
inv, invInPlace, invWithOutput = _unary(UnaryOpType.INVERSE)
isFinite, isFiniteInPlace, isFiniteWithOutput = _unary(UnaryOpType.IS_FINITE)
isInf, isInfInPlace, isInfWithOutput = _unary(UnaryOpType.IS_INF)
isNaN, isNaNInPlace, isNaNWithOutput = _unary(UnaryOpType.IS_NAN)
log, logInPlace, logWithOutput = _unary(UnaryOpType.LOGARITHM)
log1p, log1pInPlace, log1pWithOutput = _unary(UnaryOpType.LOGARITHM_ONE_PLUS)
logicalNot, logicalNotInPlace, logicalNotWithOutput = _unary(UnaryOpType.LOGICAL_NOT)
nearbyint, nearbyintInPlace, nearbyintWithOutput = _unary(UnaryOpType.NEARBY_INT)
neg, negInPlace, negWithOutput = _unary(UnaryOpType.NEGATE)
popcount, popcountInPlace, popcountWithOutput = _unary(UnaryOpType.POPCOUNT)
relu, reluInPlace, reluWithOutput = _unary(UnaryOpType.RELU)
round, roundInPlace, roundWithOutput = _unary(UnaryOpType.ROUND)
rsqrt, rsqrtInPlace, rsqrtWithOutput = _unary(UnaryOpType.RSQRT)
sigmoid, sigmoidInPlace, sigmoidWithOutput = _unary(UnaryOpType.SIGMOID)
signum, signumInPlace, signumWithOutput = _unary(UnaryOpType.SIGNUM)
sin, sinInPlace, sinWithOutput = _unary(UnaryOpType.SIN)
sqrt, sqrtInPlace, sqrtWithOutput = _unary(UnaryOpType.SQRT)
square, squareInPlace, squareWithOutput = _unary(UnaryOpType.SQUARE)
tan, tanInPlace, tanWithOutput = _unary(UnaryOpType.TAN)
tanh, tanhInPlace, tanhWithOutput = _unary(UnaryOpType.TANH)
trunc, truncInPlace, truncWithOutput = _unary(UnaryOpType.TRUNC)
add, addInPlace, addWithOutput = _binary(BinaryOpType.ADD)
atan2, atan2InPlace, atan2WithOutput = _binary(BinaryOpType.ATAN2)
bitwiseAnd, bitwiseAndInPlace, bitwiseAndWithOutput = _binary(BinaryOpType.BITWISE_AND)
bitwiseOr, bitwiseOrInPlace, bitwiseOrWithOutput = _binary(BinaryOpType.BITWISE_OR)
bitwiseXnor, bitwiseXnorInPlace, bitwiseXnorWithOutput = _binary(BinaryOpType.BITWISE_XNOR)
bitwiseXor, bitwiseXorInPlace, bitwiseXorWithOutput = _binary(BinaryOpType.BITWISE_XOR)
div, divInPlace, divWithOutput = _binary(BinaryOpType.DIVIDE)
eq, eqInPlace, eqWithOutput = _binary(BinaryOpType.EQUAL)
gt, gtInPlace, gtWithOutput = _binary(BinaryOpType.GREATER_THAN)
gteq, gteqInPlace, gteqWithOutput = _binary(BinaryOpType.GREATER_THAN_EQUAL)
invStdDevToVariance, invStdDevToVarianceInPlace, invStdDevToVarianceWithOutput = _binary(
    BinaryOpType.INV_STD_DEV_TO_VARIANCE
)
lt, ltInPlace, ltWithOutput = _binary(BinaryOpType.LESS_THAN)
lteq, lteqInPlace, lteqWithOutput = _binary(BinaryOpType.LESS_THAN_EQUAL)
logicalAnd, logicalAndInPlace, logicalAndWithOutput = _binary(BinaryOpType.LOGICAL_AND)
logicalOr, logicalOrInPlace, logicalOrWithOutput = _binary(BinaryOpType.LOGICAL_OR)
max, maxInPlace, maxWithOutput = _binary(BinaryOpType.MAXIMUM)
min, minInPlace, minWithOutput = _binary(BinaryOpType.MINIMUM)
mul, mulInPlace, mulWithOutput = _binary(BinaryOpType.MULTIPLY)
neq, neqInPlace, neqWithOutput = _binary(BinaryOpType.NOT_EQUAL)
pow, powInPlace, powWithOutput = _binary(BinaryOpType.POWER)
rem, remInPlace, remWithOutput = _binary(BinaryOpType.REMAINDER)
shiftLeft, shiftLeftInPlace, shiftLeftWithOutput = _binary(BinaryOpType.SHIFT_LEFT)
shiftRight, shiftRightInPlace, shiftRightWithOutput = _binary(BinaryOpType.SHIFT_RIGHT)
shiftRightSignExtend, shiftRightSignExtendInPlace, shiftRightSignExtendWithOutput = _binary(
    BinaryOpType.SHIFT_RIGHT_SIGN_EXTEND
)
sub, subInPlace, subWithOutput = _binary(BinaryOpType.SUBTRACT)
varianceToInvStdDev, varianceToInvStdDevInPlace, varianceToInvStdDevWithOutput = _binary(
    BinaryOpType.VARIANCE_TO_INV_STD_DEV
)

__all__ = [
    "abs",
    "absInPlace",
    "absWithOutput",
    "add",
    "addInPlace",
    "addWithOutput",
    "asin",
    "asinInPlace",
    "asinWithOutput",
    "atan2",
    "atan2InPlace",
    "atan2WithOutput",
    "bitwiseAnd",
    "bitwiseAndInPlace",
    "bitwiseAndWithOutput",
    "bitwiseNot",
    "bitwiseNotInPlace",
    "bitwiseNotWithOutput",
    "bitwiseOr",
    "bitwiseOrInPlace",
    "bitwiseOrWithOutput",
    "bitwiseXnor",
    "bitwiseXnorInPlace",
    "bitwiseXnorWithOutput",
    "bitwiseXor",
    "bitwiseXorInPlace",
    "bitwiseXorWithOutput",
    "cbrt",
    "cbrtInPlace",
    "cbrtWithOutput",
    "ceil",
    "ceilInPlace",
    "ceilWithOutput",
    "cos",
    "cosInPlace",
    "cosWithOutput",
    "countLeadingZeros",
    "countLeadingZerosInPlace",
    "countLeadingZerosWithOutput",
    "div",
    "divInPlace",
    "divWithOutput",
    "eq",
    "eqInPlace",
    "eqWithOutput",
    "erf",
    "erfInPlace",
    "erfWithOutput",
    "exp",
    "exp2",
    "exp2InPlace",
    "exp2WithOutput",
    "expInPlace",
    "expWithOutput",
    "expm1",
    "expm1InPlace",
    "expm1WithOutput",
    "floor",
    "floorInPlace",
    "floorWithOutput",
    "geluErf",
    "geluErfInPlace",
    "geluErfWithOutput",
    "gt",
    "gtInPlace",
    "gtWithOutput",
    "gteq",
    "gteqInPlace",
    "gteqWithOutput",
    "inv",
    "invInPlace",
    "invStdDevToVariance",
    "invStdDevToVarianceInPlace",
    "invStdDevToVarianceWithOutput",
    "invWithOutput",
    "isFinite",
    "isFiniteInPlace",
    "isFiniteWithOutput",
    "isInf",
    "isInfInPlace",
    "isInfWithOutput",
    "isNaN",
    "isNaNInPlace",
    "isNaNWithOutput",
    "log",
    "log1p",
    "log1pInPlace",
    "log1pWithOutput",
    "logInPlace",
    "logWithOutput",
    "logicalAnd",
    "logicalAndInPlace",
    "logicalAndWithOutput",
    "logicalNot",
    "logicalNotInPlace",
    "logicalNotWithOutput",
    "logicalOr",
    "logicalOrInPlace",
    "logicalOrWithOutput",
    "lt",
    "ltInPlace",
    "ltWithOutput",
    "lteq",
    "lteqInPlace",
    "lteqWithOutput",
    "max",
    "maxInPlace",
    "maxWithOutput",
    "min",
    "minInPlace",
    "minWithOutput",
    "mul",
    "mulInPlace",
    "mulWithOutput",
    "nearbyint",
    "nearbyintInPlace",
    "nearbyintWithOutput",
    "neg",
    "negInPlace",
    "negWithOutput",
    "neq",
    "neqInPlace",
    "neqWithOutput",
    "popcount",
    "popcountInPlace",
    "popcountWithOutput",
    "pow",
    "powInPlace",
    "powWithOutput",
    "relu",
    "reluInPlace",
    "reluWithOutput",
    "rem",
    "remInPlace",
    "remWithOutput",
    "round",
    "roundInPlace",
    "roundWithOutput",
    "rsqrt",
    "rsqrtInPlace",
    "rsqrtWithOutput",
    "shiftLeft",
    "shiftLeftInPlace",
    "shiftLeftWithOutput",
    "shiftRight",
    "shiftRightInPlace",
    "shiftRightSignExtend",
    "shiftRightSignExtendInPlace",
    "shiftRightSignExtendWithOutput",
    "shiftRightWithOutput",
    "sigmoid",
    "sigmoidInPlace",
    "sigmoidWithOutput",
    "signum",
    "signumInPlace",
    "signumWithOutput",
    "sin",
    "sinInPlace",
    "sinWithOutput",
    "sqrt",
    "sqrtInPlace",
    "sqrtWithOutput",
    "square",
    "squareInPlace",
    "squareWithOutput",
    "sub",
    "subInPlace",
    "subWithOutput",
    "tan",
    "tanInPlace",
    "tanWithOutput",
    "tanh",
    "tanhInPlace",
    "tanhWithOutput",
    "trunc",
    "truncInPlace",
    "truncWithOutput",
    "varianceToInvStdDev",
    "varianceToInvStdDevInPlace",
    "varianceToInvStdDevWithOutput",
]
