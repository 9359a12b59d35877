"""What a class of options declares in its `__init__`, read from its source.

In: a class. Out: for each `self.name: hint = default` its hint as text and as a type, and the string above it.
Python evaluates no annotation of an attribute inside a function, so there is no other place to read it from.
"""

from __future__ import annotations

import ast
import enum
import inspect
import textwrap
import types
import typing
from dataclasses import dataclass
from typing import Any

NO_DESCRIPTION = "No description provided."


@dataclass(frozen=True, slots=True)
class Declaration:
    """One attribute as its class declares it."""

    hint: str | None  # as written; None: the default's own type counts
    description: str = NO_DESCRIPTION


def read_declarations(owner: type) -> dict[str, Declaration]:
    """The attributes that the `__init__` of a class declares, in order; none where the source is not at hand."""
    if owner not in _read:
        _read[owner] = _parse(owner)
    return _read[owner]


_read: dict[type, dict[str, Declaration]] = {}


def _parse(owner: type) -> dict[str, Declaration]:
    try:
        source = textwrap.dedent(inspect.getsource(owner.__init__))  # type: ignore[misc]
    except (OSError, TypeError):
        return {}
    function = ast.parse(source).body[0]
    if not isinstance(function, ast.FunctionDef):
        return {}
    found: dict[str, Declaration] = {}
    above = ""
    for statement in function.body:
        match statement:
            case ast.Expr(value=ast.Constant(value=str(text))):
                above = inspect.cleandoc(text)
                continue
            case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), annotation=hint):
                found[name] = Declaration(ast.unparse(hint), above or NO_DESCRIPTION)
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
                found[name] = Declaration(None, above or NO_DESCRIPTION)
        above = ""
    return found


def resolve_hint(owner: type, declaration: Declaration, default: Any) -> tuple[str, Any]:
    """The type that values must have, as text and as an object."""
    if declaration.hint is None:
        return type(default).__name__, type(default)
    names = {**owner.__init__.__globals__, "typing": typing}  # type: ignore[misc]
    resolved = eval(declaration.hint, names)
    if _mixes_numbers(resolved):
        raise ValueError(
            f"The attribute of type {declaration.hint} cannot have a Union of int and Enum: in a dictionary an "
            "enumeration is a number, and nobody could tell which of the two was meant."
        )
    return declaration.hint, resolved


def _mixes_numbers(hint: Any) -> bool:
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return False
    members = typing.get_args(hint)
    return int in members and any(_is_enumeration(member) for member in members)


def _is_enumeration(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, enum.Enum)


def fits_hint(value: Any, hint: Any) -> bool:
    """Is the value of exactly this type? A bool is no int here, and a subclass is not its base."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits_hint(value, member) for member in arguments)
    if origin is None:
        return isinstance(value, hint) if _is_enumeration(hint) else type(value) is hint
    if type(value) is not origin:
        return False
    if origin is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
        return len(value) == len(arguments) and all(map(fits_hint, value, arguments))
    if origin is dict:
        return all(fits_hint(key, arguments[0]) and fits_hint(item, arguments[1]) for key, item in value.items())
    return all(fits_hint(item, arguments[0]) for item in value)


def find_enumeration(hint: Any) -> type[enum.Enum] | None:
    """The enumeration that a number of a dictionary stands for."""
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    return next((member for member in members if _is_enumeration(member)), None)
