"""Functions of Paddle that its newest version knows for the new form of programs alone.

In: Paddle in its legacy form. Out: the same functions, which append the op of the legacy form where they are called
with a variable of it, and do what they did everywhere else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

_UNARY = {
    **{
        name: name
        for name in (
            *("abs", "acos", "acosh", "asin", "atanh", "ceil", "cos", "cosh", "exp", "expm1", "floor", "log", "log10"),
            *("log1p", "log2", "logical_not", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tanh"),
            *("square", "reciprocal", "erf", "tan", "atan", "asinh"),
        )
    },
    "isfinite": "isfinite_v2",
    "isinf": "isinf_v2",
    "isnan": "isnan_v2",
}
_BINARY = {
    "dot": "dot",
    "bmm": "bmm",
    "greater_than": "greater_than",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
    "maximum": "elementwise_max",
    "minimum": "elementwise_min",
    "multiply": "elementwise_mul",
}
_REDUCTIONS = {
    "all": "reduce_all",
    "any": "reduce_any",
    "amax": "reduce_amax",
    "amin": "reduce_amin",
    "sum": "reduce_sum",
    "logsumexp": "logsumexp",
}
# functions that still take variables of the legacy form, but not the words that went with it
_RENAMED_BINARY = {
    "add": "elementwise_add",
    "subtract": "elementwise_sub",
    "divide": "elementwise_div",
    "pow": "elementwise_pow",
    "remainder": "elementwise_mod",
}
_RENAMED_REDUCTIONS = {"max": "reduce_max", "min": "reduce_min", "mean": "reduce_mean", "prod": "reduce_prod"}
_TRUTHS = ("isfinite_v2", "isinf_v2", "isnan_v2", "logical_not", "logical_and", "logical_or", "logical_xor")
_BOOLEAN = frozenset({*_TRUTHS, "greater_than", "reduce_all", "reduce_any"})
# other words for the same argument, of earlier and later versions
_SPELLINGS = {"input": "x", "dim": "axis", "keep_dim": "keepdim", "other": "y"}

Build = Callable[..., Any]


def install(paddle: Any) -> None:
    """Replace the functions wherever Paddle offers them."""
    variable = paddle.static.Variable
    builders: dict[str, Build] = {
        **{name: _build_unary(paddle, op) for name, op in _UNARY.items()},
        **{name: _build_binary(paddle, op) for name, op in _BINARY.items()},
        **{name: _build_reduction(paddle, name, op) for name, op in _REDUCTIONS.items()},
        "matmul": _build_matmul(paddle),
        "argmax": _build_extreme(paddle, "arg_max"),
        "argmin": _build_extreme(paddle, "arg_min"),
        "gelu": _build_gelu(paddle),
        "softplus": _build_softplus(paddle),
        "expand_as": _build_expand_as(paddle),
        "tril": _build_triangle(paddle, lower=True),
        "triu": _build_triangle(paddle, lower=False),
        "roll": _build_roll(paddle),
    }
    places: list[Any] = [paddle, paddle.tensor, paddle.nn.functional, paddle.tensor.math, paddle.tensor.ops]
    places += (
        paddle.tensor.linalg,
        paddle.tensor.search,
        paddle.tensor.logic,
        paddle.tensor.creation,
        paddle.tensor.manipulation,
    )
    renamed = {
        "cumsum": (_build_cumsum(paddle), ("exclusive", "reverse")),
        "expand": (_build_repeat(paddle), ("expand_times",)),
        **{name: (_build_binary(paddle, op), ("axis",)) for name, op in _RENAMED_BINARY.items()},
        **{name: (_build_reduction(paddle, name, op), ("dim", "keep_dim")) for name, op in _RENAMED_REDUCTIONS.items()},
    }
    for name, (build, words) in renamed.items():
        for place in places:
            original = getattr(place, name, None)
            if callable(original) and not getattr(original, "_openipu", False):
                setattr(place, name, _choose(variable, original, build, words))
    for name, build in builders.items():
        for place in places:
            original = getattr(place, name, None)
            if callable(original) and not getattr(original, "_openipu", False):
                setattr(place, name, _choose(variable, original, build))
        if hasattr(paddle.Tensor, name) or hasattr(variable, name):
            setattr(variable, name, build)


def _choose(variable: Any, original: Build, build: Build, words: Sequence[str] = ()) -> Build:
    """The builder where it is needed: for a variable of the legacy form, and old words if it is for these alone."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values())
        needed = not words or any(word in kwargs for word in words)
        if needed and any(isinstance(value, variable) for value in values):
            return build(*args, **{_SPELLINGS.get(name, name): value for name, value in kwargs.items()})
        return original(*args, **kwargs)

    call._openipu = True  # type: ignore[attr-defined]
    return call


def _append(
    paddle: Any,
    op: str,
    inputs: dict[str, Any],
    attributes: dict[str, Any] | None = None,
    *,
    dtype: Any = None,
    name: Any = None,
) -> Any:
    """One op with one result."""
    helper = paddle.base.layer_helper.LayerHelper(op, name=name)
    source = next(iter(inputs.values()))
    source = source[0] if isinstance(source, list) else source
    kind = "bool" if op in _BOOLEAN else source.dtype if dtype is None else dtype
    result = helper.create_variable_for_type_inference(dtype=kind)
    result.stop_gradient = op in _BOOLEAN
    helper.append_op(type=op, inputs=inputs, outputs={"Out": [result]}, attrs=attributes or {})
    return result


def _build_unary(paddle: Any, op: str) -> Build:
    def build(x: Any, name: Any = None, **rest: Any) -> Any:
        return _append(paddle, op, {"X": [x]}, name=name)

    return build


def _to_variable(paddle: Any, value: Any, like: Any) -> Any:
    if isinstance(value, paddle.static.Variable):
        return value
    return paddle.full([1] if like.shape else [], float(value), dtype=like.dtype)


def _build_binary(paddle: Any, op: str) -> Build:
    def build(x: Any, y: Any, name: Any = None, **rest: Any) -> Any:
        axis = rest.get("axis", -1)
        if not isinstance(x, paddle.static.Variable):
            x = _to_variable(paddle, x, y)
        y = _to_variable(paddle, y, x)
        attributes = {"axis": axis} if op.startswith(("elementwise", "greater")) else {}
        return _append(paddle, op, {"X": [x], "Y": [y]}, attributes, name=name)

    return build


def _list_axes(axis: Any) -> list[int]:
    if axis is None:
        return []
    return [int(number) for number in axis] if isinstance(axis, Sequence) else [int(axis)]


def _build_reduction(paddle: Any, name: str, op: str) -> Build:
    def build(x: Any, axis: Any = None, *rest: Any, **named: Any) -> Any:
        order = ("dtype", "keepdim", "name") if name == "sum" else ("keepdim", "name")
        given = {**dict(zip(order, rest, strict=False)), **named}
        if name == "sum" and isinstance(given.get("dtype"), bool):  # sum(x, axis, keepdim) of other versions
            given["keepdim"] = given.pop("dtype")
        axes = _list_axes(axis)
        whole = not axes or len(axes) == len(x.shape)
        keep = bool(given.get("keepdim", False))
        if op == "logsumexp":
            attributes: dict[str, Any] = {"axis": axes or [0], "keepdim": keep, "reduce_all": whole}
        else:
            attributes = {"dim": axes or [0], "keep_dim": keep, "reduce_all": whole}
        dtype = given.get("dtype")
        if op == "reduce_sum":
            kind = dtype if dtype is not None else "int64" if str(x.dtype).endswith(("bool", "BOOL")) else None
            if kind is not None:
                number = (
                    paddle.base.framework.convert_to_vartype(kind)
                    if hasattr(paddle.base.framework, "convert_to_vartype")
                    else paddle.base.framework.convert_np_dtype_to_dtype_(kind)
                )
                attributes |= {"in_dtype": x.dtype, "out_dtype": number}
                return _append(paddle, op, {"X": x}, attributes, dtype=number)
        return _append(paddle, op, {"X": x}, attributes)

    return build


def _build_matmul(paddle: Any) -> Build:
    def build(
        x: Any, y: Any, transpose_x: bool = False, transpose_y: bool = False, name: Any = None, **rest: Any
    ) -> Any:
        attributes = {"trans_x": bool(transpose_x), "trans_y": bool(transpose_y)}
        return _append(paddle, "matmul_v2", {"X": x, "Y": y}, attributes, name=name)

    return build


def _build_extreme(paddle: Any, op: str) -> Build:
    def build(x: Any, axis: Any = None, keepdim: bool = False, dtype: Any = "int64", name: Any = None) -> Any:
        number = paddle.base.framework.convert_np_dtype_to_dtype_(dtype)
        attributes = {
            "axis": 0 if axis is None else int(axis),
            "flatten": axis is None,
            "keepdims": bool(keepdim),
            "dtype": number,
        }
        result = _append(paddle, op, {"X": x}, attributes, dtype=number, name=name)
        result.stop_gradient = True
        return result

    return build


def _build_cumsum(paddle: Any) -> Build:
    def build(x: Any, axis: Any = None, exclusive: bool = False, reverse: bool = False, **rest: Any) -> Any:
        attributes = {"axis": -1 if axis is None else int(axis), "exclusive": exclusive, "reverse": reverse}
        return _append(paddle, "cumsum", {"X": x}, attributes)

    return build


def _build_repeat(paddle: Any) -> Build:
    def build(x: Any, expand_times: Any, **rest: Any) -> Any:
        return _append(paddle, "expand", {"X": [x]}, {"expand_times": _list_axes(expand_times)})

    return build


def _build_gelu(paddle: Any) -> Build:
    def build(x: Any, approximate: bool | str = False, name: Any = None) -> Any:
        chosen = approximate if isinstance(approximate, bool) else approximate == "tanh"
        return _append(paddle, "gelu", {"X": x}, {"approximate": chosen}, name=name)

    return build


def _build_softplus(paddle: Any) -> Build:
    def build(x: Any, beta: float = 1.0, threshold: float = 20.0, name: Any = None) -> Any:
        return _append(paddle, "softplus", {"X": x}, {"beta": float(beta), "threshold": float(threshold)}, name=name)

    return build


def _build_expand_as(paddle: Any) -> Build:
    def build(x: Any, y: Any, name: Any = None) -> Any:
        inputs = {"X": [x], "Y": [y]}
        return _append(paddle, "expand_as_v2", inputs, {"target_shape": list(y.shape)}, name=name)

    return build


def _build_triangle(paddle: Any, *, lower: bool) -> Build:
    def build(x: Any, diagonal: int = 0, name: Any = None) -> Any:
        return _append(paddle, "tril_triu", {"X": x}, {"diagonal": int(diagonal), "lower": lower}, name=name)

    return build


def _build_roll(paddle: Any) -> Build:
    def build(x: Any, shifts: Any, axis: Any = None, name: Any = None) -> Any:
        return _append(paddle, "roll", {"X": x}, {"axis": _list_axes(axis), "shifts": _list_axes(shifts)}, name=name)

    return build
