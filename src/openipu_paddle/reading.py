"""A program in Paddle's memory, as the translator reads it.

In: a `paddle.static.Program` of either form. Out: a `PaddleProgram`, by way of Paddle's own serialisation: what is read
from files and from memory goes through the same reader.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openipu.capture import find_written_line, register_internal_directory
from openipu.errors import InputError
from openipu.graph import SourceLine
from openipu.translate.paddle import PaddleProgram, read_legacy, read_pir
from openipu_paddle.pir_sharding import Tags, read_tags

_STACK = "op_callstack"  # attribute in which Paddle keeps where an op was made


@dataclass(frozen=True, eq=False)
class ReadProgram:
    """A program, and names of values that have none of their own: Paddle's id of the value -> name."""

    program: PaddleProgram
    names: Mapping[str, str] = field(default_factory=dict)


def is_pir(program: Any) -> bool:
    """Is it a program of Paddle's new form?"""
    import paddle

    return isinstance(program, paddle.pir.Program)


def read_program(program: Any) -> ReadProgram:
    """The translator's form of a program."""
    if is_pir(program):
        return _read_pir(program)
    program.desc.flush()
    read = read_legacy(program.desc.serialize_to_string())
    blocks = (
        replace(block, ops=tuple(replace(op, line=_find_line(op.attributes.get(_STACK))) for op in block.ops))
        for block in read.blocks
    )
    return ReadProgram(replace(read, blocks=tuple(blocks)))


def _find_line(stack: Any) -> SourceLine | None:
    """The user's line in the stack that Paddle wrote down when an op was made."""
    _know_own_folders()
    return find_written_line(stack) if isinstance(stack, Sequence) and not isinstance(stack, str) else None


@functools.cache
def _know_own_folders() -> None:
    import paddle

    for file in (paddle.__file__, __file__):
        register_internal_directory(os.path.dirname(file))


def _read_pir(program: Any) -> ReadProgram:
    """Paddle writes this form to files only. It numbers the values of a program in order, from 1."""
    import paddle

    with tempfile.TemporaryDirectory(prefix="openipu-") as folder:
        path = Path(folder) / "program.json"
        paddle.base.core.serialize_pir_program(program, str(path))
        read = read_pir(path.read_bytes())
    names: dict[str, str] = {}
    tags: dict[str, Tags] = {}
    lines: dict[str, SourceLine | None] = {}
    number = 0
    for op in program.global_block().ops:
        line = _find_line(getattr(op, "callstack", None))
        for value in op.results():
            number += 1
            found = read.names.get(number, ())
            tags.update(dict.fromkeys(found, read_tags(op)))
            lines.update(dict.fromkeys(found, line))
            if len(found) == 1 and value.initialized():
                names[value.id] = found[0]
    (block,) = read.program.blocks
    ops = tuple(
        replace(op, attributes={**op.attributes, **tags.get(made, {})}, line=lines.get(made))
        for op, made in ((op, next(iter(op.list_outputs()), "")) for op in block.ops)
    )
    return ReadProgram(replace(read.program, blocks=(replace(block, ops=ops),)), names)


def find_name(entry: Any, names: Mapping[str, str]) -> str:
    """The name of what is fetched: a value of the new form by its id, anything else by the name that it has."""
    number = None if isinstance(entry, str) else getattr(entry, "id", None)
    return names[number] if isinstance(number, str) and number in names else name_of(entry)


def name_of(entry: Any) -> str:
    """The name of a variable, or the name itself."""
    if isinstance(entry, str):
        return entry
    try:
        name = getattr(entry, "name", None)
    except ValueError:  # a value of another program, which has no name
        name = None
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
