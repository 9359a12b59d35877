"""What the schema of an op says of its arguments.

In: an op, and the arguments of a call. Out: which of them it writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any


def find_written(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments that the op changes in place, as its schema says."""
    written: list[Any] = []
    if not func._schema.is_mutable:
        return written
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        written.extend(value if isinstance(value, list | tuple) else [value])
    return [value for value in written if value is not None]


@cache
def list_outputs(func: Any) -> tuple[str, ...]:
    """The names of the arguments that the op writes its results to: `out`, in most cases."""
    return tuple(
        argument.name
        for argument in func._schema.arguments
        if argument.kwarg_only and argument.alias_info is not None and argument.alias_info.is_write
    )
