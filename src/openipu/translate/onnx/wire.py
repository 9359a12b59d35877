"""The weights of an ONNX file, found without reading them.

In: the bytes of a `ModelProto`, usually a map of a file. Out: the same model without the raw data of its large
initializers, small enough to be parsed at once, and where in the bytes each of them lies. A file of 2 GB is opened as
quickly as one of 2 kB. Lengths are checked against what is really there: the bytes may be anybody's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from openipu.errors import TranslationError

LARGE_BYTES = 1024  # raw data of at least this size stays where it is

_GRAPH_OF_MODEL = 7
_INITIALIZER_OF_GRAPH = 5
_RAW_DATA_OF_TENSOR = 9
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5

Buffer = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Extent:
    """A part of the bytes."""

    start: int
    length: int


@dataclass(frozen=True, eq=False)
class StrippedModel:
    """A model without its large weights."""

    content: bytes
    extents: dict[int, Extent]  # number of the initializer -> its raw data


@dataclass(frozen=True, slots=True)
class _Field:
    number: int
    start: int  # of the tag
    value: Extent  # without tag and length; for other than bytes: empty
    end: int


def strip_weights(content: Buffer) -> StrippedModel:
    """Take large raw data out of a serialised `ModelProto`."""
    view = memoryview(content)
    extents: dict[int, Extent] = {}
    parts: list[Buffer] = []
    kept = 0
    for entry in _walk(view, Extent(0, len(view))):
        if entry.number != _GRAPH_OF_MODEL:
            continue
        if kept:
            raise TranslationError("The ONNX model has more than one graph. It is damaged.")
        graph = _strip_graph(view, entry.value, extents)
        parts += [view[kept : entry.start], _tag(_GRAPH_OF_MODEL), _varint(sum(map(len, graph))), *graph]
        kept = entry.end
    parts.append(view[kept:])
    return StrippedModel(b"".join(parts), extents)


def _strip_graph(view: memoryview, graph: Extent, extents: dict[int, Extent]) -> list[Buffer]:
    parts: list[Buffer] = []
    kept, number = graph.start, 0
    for entry in _walk(view, graph):
        if entry.number != _INITIALIZER_OF_GRAPH:
            continue
        found = [part for part in _walk(view, entry.value) if part.number == _RAW_DATA_OF_TENSOR]
        if len(found) == 1 and found[0].value.length >= LARGE_BYTES:
            raw = found[0]
            extents[number] = raw.value
            first, last = view[entry.value.start : raw.start], view[raw.end : entry.end]
            size = _varint(len(first) + len(last))
            parts += [view[kept : entry.start], _tag(_INITIALIZER_OF_GRAPH), size, first, last]
            kept = entry.end
        number += 1
    parts.append(view[kept : graph.start + graph.length])
    return parts


def _walk(view: memoryview, part: Extent) -> Iterator[_Field]:
    """The fields of one message."""
    position, end = part.start, part.start + part.length
    while position < end:
        start = position
        tag, position = _read_varint(view, position, end)
        kind, value = tag & 7, Extent(position, 0)
        if kind == _VARINT:
            _, position = _read_varint(view, position, end)
        elif kind == _FIXED_64:
            position += 8
        elif kind == _FIXED_32:
            position += 4
        elif kind == _BYTES:
            length, position = _read_varint(view, position, end)
            value = Extent(position, length)
            position += length
        else:
            raise TranslationError(f"This is not an ONNX model: an unknown kind of field at byte {start}.")
        if position > end:
            raise TranslationError(
                f"The ONNX model is cut short: a field at byte {start} needs {position - end} more bytes."
            )
        yield _Field(tag >> 3, start, value, position)


def _read_varint(view: memoryview, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 70:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise TranslationError(f"The ONNX model is cut short or damaged at byte {position}.")


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _tag(number: int) -> bytes:
    return _varint(number << 3 | _BYTES)
