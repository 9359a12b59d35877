"""A program in Paddle's memory, as the translator reads it.

In: a `paddle.static.Program` of either form. Out: a `PaddleProgram`, by way of Paddle's own serialisation: what is read
from files and from memory goes through the same reader.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openipu.errors import InputError
from openipu.translate.paddle import PaddleOp, PaddleProgram, read_legacy, read_pir
from openipu_paddle.pir_sharding import Tags, read_tags


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
    return ReadProgram(read_legacy(program.desc.serialize_to_string()))


def _read_pir(program: Any) -> ReadProgram:
    """Paddle writes this form to files only. It numbers the values of a program in order, from 1."""
    import paddle

    with tempfile.TemporaryDirectory(prefix="openipu-") as folder:
        path = Path(folder) / "program.json"
        paddle.base.core.serialize_pir_program(program, str(path))
        read = read_pir(path.read_bytes())
    names: dict[str, str] = {}
    tags: dict[str, Tags] = {}
    number = 0
    for op in program.global_block().ops:
        for value in op.results():
            number += 1
            found = read.names.get(number, ())
            tags.update(dict.fromkeys(found, read_tags(op)))
            if len(found) == 1 and value.initialized():
                names[value.id] = found[0]
    (block,) = read.program.blocks
    ops = tuple(replace(op, attributes={**op.attributes, **_find_tags(op, tags)}) for op in block.ops)
    return ReadProgram(replace(read.program, blocks=(replace(block, ops=ops),)), names)


def _find_tags(op: PaddleOp, tags: Mapping[str, Tags]) -> Tags:
    """The tags of what an op makes first: they are not in what Paddle writes."""
    made = op.list_outputs()
    return tags.get(made[0], {}) if made else {}


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
