"""Values in bytes, as C++ programs send and read them.

In and out: Python values; tensors by where their elements lie. `poplar/cxx/include/openipu/wire.hpp` is the other side.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from openipu.errors import InternalError
from openipu.graph import mapped
from openipu.graph.mapped import ElementType
from poplar._graph import Graph
from poplar._tensor import Tensor

_TYPES: tuple[ElementType | None, ...] = (
    None,
    mapped.BOOL,
    mapped.CHAR,
    mapped.UNSIGNED_CHAR,
    mapped.SIGNED_CHAR,
    mapped.SHORT,
    mapped.UNSIGNED_SHORT,
    mapped.INT,
    mapped.UNSIGNED_INT,
    mapped.LONG,
    mapped.UNSIGNED_LONG,
    mapped.LONGLONG,
    mapped.UNSIGNED_LONGLONG,
    mapped.QUARTER,
    mapped.HALF,
    mapped.FLOAT,
)
_CODES = {one.name: code for code, one in enumerate(_TYPES) if one is not None}


class Tag(IntEnum):
    NONE = 0
    BOOL = 1
    INT = 2
    FLOAT = 3
    TEXT = 4
    LIST = 5
    DICT = 6
    BYTES = 7
    INTS = 8
    TENSOR = 9
    PROGRAM = 10
    COMPUTE_SET = 11
    HANDLE = 12
    TYPE = 13


@dataclass(frozen=True, slots=True)
class Handle:
    """Something that this process keeps for the other one."""

    number: int


@dataclass(frozen=True, slots=True)
class ComputeSetNumber:
    """A compute set of the graph that a request is about."""

    number: int


@dataclass(frozen=True, slots=True)
class HeldProgram:
    """A program that a library made, and that this process keeps."""

    number: int


class Reader:
    """Decodes one message."""

    def __init__(self, content: bytes, find_graph: Callable[[int], Graph]) -> None:
        self._content = content
        self._at = 0
        self._find_graph = find_graph

    def read(self) -> Any:
        tag = self._content[self._at]
        self._at += 1
        if tag == Tag.NONE:
            return None
        if tag == Tag.BOOL:
            return bool(self._take("<B"))
        if tag == Tag.INT:
            return self._take("<q")
        if tag == Tag.FLOAT:
            return self._take("<d")
        if tag == Tag.TEXT:
            return self._take_bytes(self._take("<Q")).decode("utf-8", errors="replace")
        if tag == Tag.BYTES:
            return self._take_bytes(self._take("<Q"))
        if tag == Tag.LIST:
            return [self.read() for _ in range(self._take("<Q"))]
        if tag == Tag.DICT:
            return {self.read(): self.read() for _ in range(self._take("<Q"))}
        if tag == Tag.INTS:
            return self._take_numbers()
        if tag == Tag.TENSOR:
            return self._read_tensor()
        if tag == Tag.HANDLE:
            return Handle(self._take("<q"))
        if tag == Tag.COMPUTE_SET:
            return ComputeSetNumber(self._take("<q"))
        if tag == Tag.PROGRAM:
            return HeldProgram(self._take("<q"))
        if tag == Tag.TYPE:
            return _TYPES[self._take("<B")]
        raise InternalError(f"A message of a C++ program holds an unknown tag {tag}.")

    def _read_tensor(self) -> Tensor:
        graph = self._find_graph(self._take("<q"))
        element = _TYPES[self._take("<B")]
        assert element is not None
        rank = self._take("<Q")
        shape = tuple(self._take_many(rank))
        if self._take("<B"):
            offset, *strides = self._take_many(rank + 1)
            return Tensor(graph, element, shape, offset, tuple(strides))
        return Tensor(graph, element, shape, 0, (), self._take_numbers().reshape(shape))

    def _take(self, form: str) -> Any:
        size = struct.calcsize(form)
        (value,) = struct.unpack_from(form, self._content, self._at)
        self._at += size
        return value

    def _take_many(self, count: int) -> list[int]:
        values = struct.unpack_from(f"<{count}q", self._content, self._at)
        self._at += 8 * count
        return list(values)

    def _take_bytes(self, size: int) -> bytes:
        content = self._content[self._at : self._at + size]
        self._at += size
        return content

    def _take_numbers(self) -> npt.NDArray[np.int64]:
        count = self._take("<Q")
        found = np.frombuffer(self._content, dtype="<i8", count=count, offset=self._at)
        self._at += 8 * count
        return found


class Writer:
    """Encodes values. `number_graph` says how the other process calls the graph of a tensor."""

    def __init__(self, number_graph: Callable[[Graph], int]) -> None:
        self._number_graph = number_graph
        self._pieces: list[bytes] = []

    def finish(self) -> bytes:
        return b"".join(self._pieces)

    def write(self, value: Any) -> None:
        put = self._pieces.append
        if value is None:
            put(b"\0")
        elif isinstance(value, (bool, np.bool_)):
            put(struct.pack("<BB", Tag.BOOL, value))
        elif isinstance(value, (int, np.integer)):
            put(struct.pack("<Bq", Tag.INT, int(value)))
        elif isinstance(value, (float, np.floating)):
            put(struct.pack("<Bd", Tag.FLOAT, float(value)))
        elif isinstance(value, str):
            text = value.encode("utf-8", errors="replace")
            put(struct.pack("<BQ", Tag.TEXT, len(text)) + text)
        elif isinstance(value, (bytes, bytearray, memoryview)):
            put(struct.pack("<BQ", Tag.BYTES, len(value)))
            put(bytes(value))
        elif isinstance(value, np.ndarray):
            numbers = np.ascontiguousarray(value, dtype="<i8")
            put(struct.pack("<BQ", Tag.INTS, numbers.size) + numbers.tobytes())
        elif isinstance(value, Tensor):
            self._write_tensor(value)
        elif isinstance(value, Handle):
            put(struct.pack("<Bq", Tag.HANDLE, value.number))
        elif isinstance(value, ComputeSetNumber):
            put(struct.pack("<Bq", Tag.COMPUTE_SET, value.number))
        elif isinstance(value, HeldProgram):
            put(struct.pack("<Bq", Tag.PROGRAM, value.number))
        elif isinstance(value, ElementType):
            put(struct.pack("<BB", Tag.TYPE, _CODES[value.name]))
        elif isinstance(value, dict):
            put(struct.pack("<BQ", Tag.DICT, len(value)))
            for key, entry in value.items():
                self.write(str(key))
                self.write(entry)
        else:
            put(struct.pack("<BQ", Tag.LIST, len(value)))
            for entry in value:
                self.write(entry)

    def _write_tensor(self, tensor: Tensor) -> None:
        shape = tensor._shape
        head = struct.pack("<BqB", Tag.TENSOR, self._number_graph(tensor.graph), _CODES[tensor._type.name])
        body = struct.pack(f"<Q{len(shape)}q", len(shape), *shape)
        if tensor._addresses is None:
            rest = struct.pack(f"<Bq{len(shape)}q", 1, tensor._offset, *tensor._strides)
        else:
            flat = np.ascontiguousarray(tensor._addresses, dtype="<i8").reshape(-1)
            rest = struct.pack("<BQ", 0, flat.size) + flat.tobytes()
        self._pieces.append(head + body + rest)
