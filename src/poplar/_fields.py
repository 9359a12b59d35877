"""Annotations of a codelet's fields: `Input[Vector[FLOAT]]`, `Output[FLOAT]`, `InOut[VectorList[HALF]]`.

In: element types. Out: `FieldKind`s, which a `Vertex` class turns into fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openipu.graph.mapped import BOOL, FLOAT, INT, Access, ElementType, Form

_PLAIN: dict[Any, ElementType] = {float: FLOAT, int: INT, bool: BOOL}


@dataclass(frozen=True, slots=True)
class FieldKind:
    """What an annotation says. Without an access it is a vertex's own state."""

    access: Access
    form: Form
    type: ElementType | None


def read_kind(annotation: Any) -> FieldKind | None:
    """The kind of a field; None for an annotation that is about something else."""
    if isinstance(annotation, FieldKind):
        return annotation
    element = annotation if isinstance(annotation, ElementType) else _PLAIN.get(annotation)
    return None if element is None else FieldKind(Access.STATE, Form.SCALAR, element)


def _with_access(access: Access, inner: Any) -> FieldKind:
    kind = read_kind(inner)
    if kind is None:
        raise TypeError(f"{inner!r} is no element type. Write, for example, Input[FLOAT] or Output[Vector[HALF]].")
    return FieldKind(access, kind.form, kind.type)


class _Ready:
    """Subscripts make a kind; there is nothing else to do with these names."""

    access: Access = Access.STATE
    form: Form | None = None

    def __class_getitem__(cls, inner: Any) -> FieldKind:
        element = inner[0] if isinstance(inner, tuple) else inner  # Vector[FLOAT, ONE_PTR, 8]: layout has no effect
        if cls.form is not None:
            kind = read_kind(element)
            if kind is None:
                raise TypeError(f"{element!r} is no element type. Write, for example, {cls.__name__}[FLOAT].")
            return FieldKind(Access.STATE, cls.form, kind.type)
        return _with_access(cls.access, element)


class Input(_Ready):
    """A field that a vertex reads."""

    access = Access.INPUT


class Output(_Ready):
    """A field that a vertex writes."""

    access = Access.OUTPUT


class InOut(_Ready):
    """A field that a vertex reads and writes."""

    access = Access.INOUT


class Vector(_Ready):
    """Several elements in a row."""

    form = Form.VECTOR


class VectorList(_Ready):
    """Several vectors, each with a length of its own."""

    form = Form.VECTOR_LIST
