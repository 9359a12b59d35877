"""A `MappedProgram` as a document of plain values and one array for each number format.

In: a program, or what `dump` made of one. Out: the other. Nothing is pickled: only the record classes that are listed
here are ever made, with exactly their fields. Codelets are written by reference, never as code; whoever reads says
where they are.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import numpy as np
import torch

from openipu.errors import ArchiveError
from openipu.graph.mapped import nodes, program
from openipu.graph.mapped.elements import ELEMENT_TYPES, ElementType
from openipu.graph.mapped.views import View
from openipu.graph.program import SourceLine
from openipu.machine import Provenance, Source, System, Target

FORMAT = 2

_RECORDS: Mapping[str, type] = {
    cls.__name__: cls
    for cls in (
        View,
        SourceLine,
        Source,
        System,
        Target,
        program.TileMap,
        program.MappedVariable,
        program.Edges,
        program.VertexBatch,
        program.MappedComputeSet,
        program.Value,
        program.LibraryCall,
        program.LibraryOp,
        program.MappedStream,
        program.MappedRemoteBuffer,
        program.MappedHostFunction,
        program.MappedProgram,
        *(cls for cls in vars(nodes).values() if isinstance(cls, type) and issubclass(cls, nodes.ProgramNode)),
    )
}
_ENUMERATIONS: Mapping[str, type[Enum]] = {cls.__name__: cls for cls in (Provenance, program.StreamKind)}
_NUMBERS = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
)
_TORCH = ("dtype", "memory_format", "layout")

Arrays = dict[str, np.ndarray]
FindCodelet = Callable[[str, Mapping[str, str]], Any]


class _Writer:
    def __init__(self) -> None:
        self._parts: dict[str, list[np.ndarray]] = {}
        self._sizes: dict[str, int] = {}
        self.nodes: list[Any] = []  # programs, each behind those that it contains: a file is not nested as they are
        self._numbers: dict[int, int] = {}

    def write(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"x": repr(value)}
        if isinstance(value, np.ndarray):
            return self._write_array(value)
        if isinstance(value, np.generic):
            return self.write(value.item())
        if isinstance(value, ElementType):
            return {"n": value.name}
        if isinstance(value, Enum):
            return {"e": [type(value).__name__, value.value]}
        if dataclasses.is_dataclass(value) and type(value).__name__ in _RECORDS:
            if id(value) in self._numbers:
                return {"p": self._numbers[id(value)]}
            written = {
                "c": type(value).__name__,
                "f": {field.name: self.write(getattr(value, field.name)) for field in dataclasses.fields(value)},
            }
            if not isinstance(value, nodes.ProgramNode):
                return written
            self._numbers[id(value)] = len(self.nodes)
            self.nodes.append(written)
            return {"p": len(self.nodes) - 1}
        if isinstance(value, Mapping):
            return {"d": [[self.write(key), self.write(item)] for key, item in value.items()]}
        if isinstance(value, tuple):
            return {"t": [self.write(item) for item in value]}
        if isinstance(value, list):
            return [self.write(item) for item in value]
        if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
            return {"y": str(value).removeprefix("torch.")}
        if hasattr(value, "reference") and hasattr(value, "fields"):
            return self._write_codelet(value)
        raise ArchiveError(f"{type(value).__name__} cannot be written to a file")

    def _write_codelet(self, codelet: Any) -> Any:
        reference = dict(codelet.reference)
        if not reference:
            raise ArchiveError(
                f"the codelet {codelet.name} cannot be found again by name: define it at the top of a module or a file"
            )
        return {"v": [codelet.name, reference]}

    def _write_array(self, value: np.ndarray) -> Any:
        kind = value.dtype.name
        offset = self._sizes.get(kind, 0)
        self._parts.setdefault(kind, []).append(np.ascontiguousarray(value).reshape(-1))
        self._sizes[kind] = offset + value.size
        return {"a": [kind, offset, list(value.shape)]}

    def arrays(self) -> Arrays:
        return {kind: np.concatenate(parts) for kind, parts in self._parts.items()}


def dump_mapped(value: program.MappedProgram) -> tuple[Any, Arrays]:
    """A document for JSON, and arrays by number format. ArchiveError for what only this process has."""
    writer = _Writer()
    written = writer.write(value)
    document = {"format": FORMAT, "nodes": writer.nodes, "program": written}
    return document, writer.arrays()


def load_mapped(document: Any, arrays: Mapping[str, np.ndarray], find_codelet: FindCodelet) -> program.MappedProgram:
    """The program of a document. ArchiveError where it is not one that `dump` writes."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ArchiveError("it is of another version")
    try:
        made: list[Any] = []
        for node in document["nodes"]:
            made.append(_read(node, arrays, find_codelet, made))
        found = _read(document["program"], arrays, find_codelet, made)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise ArchiveError(f"it is damaged ({error!r})") from error
    if not isinstance(found, program.MappedProgram):
        raise ArchiveError("it holds no program")
    return found


def _read(value: Any, arrays: Mapping[str, np.ndarray], find: FindCodelet, made: list[Any]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_read(item, arrays, find, made) for item in value]
    if len(value) == 2 and "c" in value:
        cls = _RECORDS[value["c"]]
        names = {field.name for field in dataclasses.fields(cls)}
        if set(value["f"]) != names:
            raise ValueError(f"{value['c']} has other fields")
        return cls(**{name: _read(item, arrays, find, made) for name, item in value["f"].items()})
    ((kind, content),) = value.items()
    if kind == "a":
        name, offset, shape = content
        count = math.prod(shape)
        if name not in _NUMBERS or offset < 0 or any(size < 0 for size in shape) or offset + count > arrays[name].size:
            raise ValueError("an array is not there")
        return arrays[name][offset : offset + count].reshape(shape)
    if kind == "p":
        if not 0 <= content < len(made):
            raise ValueError("a program is not there")
        return made[content]
    if kind == "t":
        return tuple(_read(item, arrays, find, made) for item in content)
    if kind == "d":
        return {_read(key, arrays, find, made): _read(item, arrays, find, made) for key, item in content}
    if kind == "n":
        return ELEMENT_TYPES[content]
    if kind == "e":
        return _ENUMERATIONS[content[0]](content[1])
    if kind == "x":
        return float(content)
    if kind == "y":
        found = getattr(torch, content)
        if type(found).__name__ not in _TORCH:
            raise ValueError(f"{content} is not a number format")
        return found
    if kind == "v":
        return find(content[0], content[1])
    raise ValueError(f"nothing is written as {kind!r}")
