"""What a compiled library of codelets says about itself.

In: the text that the runner prints. Out: `VertexType` and `FieldType`, which the engine's `Field`s are made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from poplar._errors import graph_object_creation_error


class Kind(StrEnum):
    STATE = "s"
    INPUT = "i"
    OUTPUT = "o"
    INOUT = "b"


class Layout(StrEnum):
    """What a field holds: a value or a pointer, a span, a list of spans, a list of pointers, or something unknown."""

    SCALAR = "1"
    VECTOR = "v"
    ROWS = "r"
    POINTERS = "p"
    OPAQUE = "?"


@dataclass(frozen=True, slots=True)
class FieldType:
    """One member of a vertex. `offset`, `bytes` and `alignment` are of the member, `min_align` is of its data."""

    name: str
    kind: Kind
    layout: Layout
    type: str  # "unsigned int"
    element_bytes: int
    offset: int
    bytes: int
    alignment: int
    min_align: int

    @property
    def is_plain(self) -> bool:
        """A value inside the vertex itself?"""
        return self.kind is Kind.STATE and self.layout is not Layout.VECTOR


@dataclass(frozen=True, slots=True)
class VertexType:
    """A vertex by the name that programs give it."""

    name: str
    index: int  # in the library's table
    base: str  # "Vertex", "MultiVertex", "SupervisorVertex"
    bytes: int
    fields: tuple[FieldType, ...]


def parse_description(text: str, what: str) -> tuple[VertexType, ...]:
    """The vertices that can be computed; base classes are left out."""
    found: list[VertexType] = []
    index = -1
    lines = text.splitlines()
    for at, line in enumerate(lines):
        mark, *parts = line.split("\t")
        if mark != "v":
            continue
        index += 1
        name, base, computes, size = parts
        if computes == "1" and base:
            rows = _take_while_fields(lines[at + 1 :])
            vertex = VertexType(name, index, base, int(size), tuple(_parse_field(row) for row in rows))
            _check_members(vertex, what)
            found.append(vertex)
    return tuple(found)


def _take_while_fields(lines: Sequence[str]) -> list[str]:
    rows = []
    for line in lines:
        if not line.startswith("f\t"):
            break
        rows.append(line)
    return rows


def _parse_field(row: str) -> FieldType:
    _, name, kind, layout, type_, *numbers = row.split("\t")
    return FieldType(name, Kind(kind), Layout(layout), type_, *(int(number) for number in numbers))


def _check_members(vertex: VertexType, what: str) -> None:
    """Between two members lies at most what aligns the second one; more is a member that was not found by name."""
    end, before = 0, "its beginning"
    for field in sorted(vertex.fields, key=lambda field: field.offset):
        if field.offset - end >= max(field.alignment, 1):
            raise graph_object_creation_error(
                f"{what}: the {field.offset - end} bytes between {before} and `{field.name}` of vertex {vertex.name} "
                "belong to a member whose name could not be read. Write each member as `Type name;` on its own."
            )
        if not field.type and not (field.is_plain and field.layout is Layout.OPAQUE):
            raise graph_object_creation_error(
                f"{what}: field `{field.name}` of vertex {vertex.name} holds elements of a type that tensors do not "
                "have. Use float, half, int, unsigned, short, char, bool or another number."
            )
        end, before = max(end, field.offset + field.bytes), f"`{field.name}`"
    largest = max((field.alignment for field in vertex.fields), default=1)
    if vertex.bytes - end >= max(largest, 2):
        raise graph_object_creation_error(
            f"{what}: the last {vertex.bytes - end} bytes of vertex {vertex.name} belong to a member whose name could "
            "not be read. Write each member as `Type name;` on its own, and no virtual functions."
        )
