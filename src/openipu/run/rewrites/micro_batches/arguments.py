"""Arguments of ATen operators by name.

In: a node of a graph. Out: its arguments by the names of the operator's schema, and back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import torch
from torch import fx

Target = torch._ops.OpOverload


@cache
def _read_schema(target: Target) -> tuple[tuple[str, bool, Any], ...]:
    """For each argument: its name, whether it is passed by keyword only, its default."""
    return tuple((entry.name, entry.kwarg_only, entry.default_value) for entry in target._schema.arguments)


def read_arguments(node: fx.Node) -> dict[str, Any]:
    """All arguments, those left out with their defaults."""
    assert isinstance(node.target, Target)
    return {name: default for name, _, default in _read_schema(node.target)} | read_given(node)


def read_given(node: fx.Node, without: Collection[str] = ()) -> dict[str, Any]:
    """The arguments that were written down."""
    assert isinstance(node.target, Target)
    names = [name for name, by_keyword, _ in _read_schema(node.target) if not by_keyword]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return {name: value for name, value in given.items() if name not in without}


def list_arguments(target: Target, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments for a call."""
    positional: list[Any] = []
    defaults: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, by_keyword, default in _read_schema(target):
        if by_keyword:
            if name in given:
                kwargs[name] = given[name]
        elif name in given:
            positional += [*defaults, given[name]]
            defaults = []
        else:
            defaults.append(default)
    return tuple(positional), kwargs


def find_tensors(node: fx.Node) -> dict[str, fx.Node]:
    """The arguments that are single values of the graph, by name."""
    return {name: value for name, value in read_given(node).items() if isinstance(value, fx.Node)}


def wrap_dimension(dimension: int, rank: int) -> int:
    """A dimension counted from the front."""
    return dimension + max(rank, 1) if dimension < 0 else dimension
