"""A program in Paddle's memory, as the translator reads it.

In: a `paddle.static.Program` of either form. Out: a `PaddleProgram`, by way of Paddle's own serialisation: what is read
from files and from memory goes through the same reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openipu.errors import InputError
from openipu.translate.paddle.legacy import read_legacy
from openipu.translate.paddle.program import PaddleProgram


@dataclass(frozen=True, eq=False)
class ReadProgram:
    """A program, and names of values that have none of their own: id of the value -> name."""

    program: PaddleProgram
    names: Mapping[int, str] = field(default_factory=dict)


def is_pir(program: Any) -> bool:
    """Is it a program of Paddle's new form?"""
    import paddle

    return isinstance(program, paddle.pir.Program)


def read_program(program: Any, fetches: Sequence[Any] = ()) -> ReadProgram:
    """The translator's form of a program."""
    if is_pir(program):
        raise InputError("The program is in Paddle's new form: set FLAGS_enable_pir_api=0 before Paddle is imported.")
    program.desc.flush()
    return ReadProgram(read_legacy(program.desc.serialize_to_string()))


def name_of(entry: Any) -> str:
    """The name of a variable, or the name itself."""
    if isinstance(entry, str):
        return entry
    name = getattr(entry, "name", None)
    if isinstance(name, str) and name:
        return name
    raise InputError(f"{entry!r} is neither a variable nor the name of one.")


def flatten(entries: Any) -> list[Any]:
    """A fetch list as users write it: nothing, one entry, a list, lists in a list."""
    if entries is None:
        return []
    if isinstance(entries, list | tuple):
        return [inner for entry in entries for inner in flatten(entry)]
    return [entries]
