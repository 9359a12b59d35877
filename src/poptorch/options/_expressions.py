"""Setter calls as data: `Training.gradientAccumulation(2)`, `setExecutionStrategy(poptorch.ShardedExecution())`.

In: an `Options` and one line. Out: the setter was called. A line may be from somebody else: it reaches the methods of
options, the enumerations and settings of `poptorch`, and number formats of `torch`. No other name is known, no other
function is called, and nothing is run as Python.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

import torch

from poptorch import enums, strategies
from poptorch.options._storage import OptionsDict

if TYPE_CHECKING:
    from poptorch.options._options import Options

_LONGEST_LINE = 2000
_LARGEST_NUMBER = 1 << 64
_SIGNS: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_FORBIDDEN = ("loadFromFile", "from_json")  # a file that names itself would never end


class ExpressionError(Exception):
    """A line holds what no list of options needs."""


def call_setter(options: Options, line: str) -> None:
    """Do what `options.<line>` says."""
    if len(line) > _LONGEST_LINE:
        raise ExpressionError(f"The line has {len(line)} letters, and at most {_LONGEST_LINE} are read.")
    tree = ast.parse(f"options.{line}", mode="eval")
    if not isinstance(tree.body, ast.Call):
        raise ExpressionError("A line calls one setter, such as deviceIterations(4).")
    _Reader(options).read(tree.body)


def find_setter(options: Options, path: str) -> Callable[..., Any]:
    """The setter of a path, as `Training.gradientAccumulation`."""
    found: Any = options
    for name in path.split("."):
        if name.startswith("__") or not isinstance(found, OptionsDict):
            raise ExpressionError(f"{path} is not an option.")
        found = getattr(found, name)
    return _check_callable(found)


class _Reader:
    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.List() | ast.Tuple() | ast.Set():
                kind = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
                return kind(self.read(item) for item in node.elts)
            case ast.Dict(keys=keys, values=values) if None not in keys:
                return {self.read(key): self.read(value) for key, value in zip(keys, values, strict=True)}  # type: ignore[arg-type]
            case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _SIGNS:
                return _SIGNS[type(sign)](_check_number(self.read(operand)))
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _ARITHMETIC:
                found = _ARITHMETIC[type(sign)](_check_number(self.read(left)), _check_number(self.read(right)))
                return _check_number(found)
            case ast.Attribute(value=owner, attr=name):
                return self._find(owner, name)
            case ast.Call(func=function, args=args, keywords=keywords):
                named = {keyword.arg: self.read(keyword.value) for keyword in keywords if keyword.arg is not None}
                if len(named) == len(keywords) and not any(isinstance(item, ast.Starred) for item in args):
                    return _check_callable(self.read(function))(*(self.read(item) for item in args), **named)
        raise ExpressionError(
            f"{ast.unparse(node)} is not a value that a list of options may hold. Call this setter in your program."
        )

    def _find(self, owner: ast.expr, name: str) -> Any:
        if name.startswith("__"):
            raise ExpressionError(f"{name} is not an option.")
        if isinstance(owner, ast.Name):
            if owner.id == "options":
                return getattr(self._options, name)
            return find_constant(owner.id, name)
        found = self.read(owner)
        if not (_is_settings(type(found)) or (isinstance(found, type) and issubclass(found, Enum))):
            raise ExpressionError(f"{ast.unparse(owner)} has nothing that a list of options may use.")
        return getattr(found, name)


def find_constant(owner: str, name: str) -> Any:
    """`torch.half`, `poptorch.OutputMode`, `OutputMode.All`: what a text may name."""
    if owner == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
        return getattr(torch, name)
    if owner == "poptorch":
        import poptorch

        found = getattr(poptorch, name, None) if name in poptorch.__all__ else None
        if isinstance(found, type) and (issubclass(found, Enum) or _is_settings(found)):
            return found
    group = getattr(enums, owner, None)
    if isinstance(group, type) and issubclass(group, Enum) and name in group.__members__:
        return group[name]
    raise ExpressionError(f"{owner}.{name} is not a value that a list of options may hold.")


def _is_settings(kind: type) -> bool:
    return issubclass(kind, OptionsDict | Enum) or kind.__module__ in (
        strategies.__name__,
        "poptorch.options._locations",
    )


def _check_callable(function: Any) -> Callable[..., Any]:
    owner = function if isinstance(function, type) else type(getattr(function, "__self__", None))
    name = getattr(function, "__name__", "")
    if not callable(function) or not _is_settings(owner) or name in _FORBIDDEN:
        raise ExpressionError(f"{name or function!r} is not a setter.")
    return function


def _check_number(value: Any) -> Any:
    if not isinstance(value, int | float) or abs(value) > _LARGEST_NUMBER:
        raise ExpressionError(f"{str(value)[:50]} is not a number that a list of options may hold.")
    return value
