"""Arguments of a node against the schema of its operator.

In: the schema, and arguments in which `Geometry` stands for a tensor. Out: the arguments by name, defaults included; or
a refusal that names the argument. Only what capture writes is accepted: by position what has one, no tensor for a
number, no generator, no device but the CPU's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import fx

from openipu.admission.geometry import Geometry
from openipu.admission.refusal import refuse
from openipu.graph.serial.values import shorten

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def _is_int(value: Any) -> bool:
    return type(value) is int and _LEAST <= value <= _MOST


def _is_float(value: Any) -> bool:
    return type(value) is float or _is_int(value)


def _is_number(value: Any) -> bool:
    return type(value) in (bool, complex) or _is_float(value)


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "Tensor": lambda value: isinstance(value, Geometry) or _is_number(value),  # PyTorch takes a number for a tensor
    "int": _is_int,
    "float": _is_float,
    "bool": lambda value: type(value) is bool,
    "number": _is_number,
    "str": lambda value: type(value) is str,
    "ScalarType": lambda value: isinstance(value, torch.dtype),
    "Layout": lambda value: value is torch.strided,
    "MemoryFormat": lambda value: isinstance(value, torch.memory_format),
    "Device": lambda value: isinstance(value, torch.device) and value.type == "cpu",
    "Generator": lambda value: False,
}


@dataclass(frozen=True, slots=True)
class _Parameter:
    """One argument of a schema: PyTorch describes it anew each time it is asked."""

    name: str
    kind: str
    repeats: int | None  # a number stands for a list of so many
    kwarg_only: bool
    required: bool
    default: Any


@cache
def _list_parameters(operator: Any) -> tuple[_Parameter, ...]:
    return tuple(
        _Parameter(
            argument.name,
            str(argument.real_type),
            argument.N,
            argument.kwarg_only,
            not argument.has_default_value(),
            argument.default_value,
        )
        for argument in operator._schema.arguments
    )


def bind_arguments(node: fx.Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of an operator by name."""
    bound: dict[str, Any] = {}
    positional, named = list(args), dict(kwargs)
    for argument in _list_parameters(node.target):
        if positional and not argument.kwarg_only:
            value = positional.pop(0)
        elif argument.name in named and argument.kwarg_only:
            value = named.pop(argument.name)
        elif not argument.required:
            bound[argument.name] = argument.default
            continue
        else:
            refuse(node, "is missing", argument.name)
        if not _fits(value, argument.kind, argument.repeats):
            refuse(node, f"{shorten(value)} is not a {argument.kind}", argument.name)
        bound[argument.name] = value
    if positional or named:
        refuse(node, f"it takes no argument {shorten(next(iter(named), len(args) - 1))}")
    return bound


def _fits(value: Any, kind: str, repeats: int | None) -> bool:
    if kind.startswith("Optional["):
        return value is None or _fits(value, kind[9:-1], repeats)
    if kind.startswith("List["):
        inner = kind[5:-1]
        if isinstance(value, list | tuple):
            return all(_fits(item, inner, None) for item in value)
        return repeats is not None and _fits(value, inner, None)  # one number for every dimension
    check = _KINDS.get(kind)
    return check is not None and check(value)
