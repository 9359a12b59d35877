"""Element types of a tile's memory, by the names that C++ gives them.

In: a name such as "unsigned int". Out: its size on a tile and its number format in numpy. Types of one size share an
address space, so that a tensor can be read as another type of the same size without a copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element type."""

    name: str
    format: str  # numpy's name

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.format)

    @property
    def bytes(self) -> int:
        return self.dtype.itemsize

    @property
    def is_floating(self) -> bool:
        return self.name in ("half", "float", "double")

    @property
    def is_integral(self) -> bool:
        return not self.is_floating and self.name not in ("bool", "quarter")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<type {self.name}>"

    def toString(self) -> str:  # noqa: N802 - the original's name
        return self.name


BOOL = ElementType("bool", "bool")
CHAR = ElementType("char", "int8")
UNSIGNED_CHAR = ElementType("unsigned char", "uint8")
SIGNED_CHAR = ElementType("signed char", "int8")
SHORT = ElementType("short", "int16")
UNSIGNED_SHORT = ElementType("unsigned short", "uint16")
INT = ElementType("int", "int32")
UNSIGNED_INT = ElementType("unsigned int", "uint32")
LONG = ElementType("long", "int32")
UNSIGNED_LONG = ElementType("unsigned long", "uint32")
LONGLONG = ElementType("long long", "int64")
UNSIGNED_LONGLONG = ElementType("unsigned long long", "uint64")
QUARTER = ElementType("quarter", "uint8")
HALF = ElementType("half", "float16")
FLOAT = ElementType("float", "float32")

ELEMENT_TYPES: Mapping[str, ElementType] = {
    one.name: one
    for one in (
        BOOL,
        CHAR,
        UNSIGNED_CHAR,
        SIGNED_CHAR,
        SHORT,
        UNSIGNED_SHORT,
        INT,
        UNSIGNED_INT,
        LONG,
        UNSIGNED_LONG,
        LONGLONG,
        UNSIGNED_LONGLONG,
        QUARTER,
        HALF,
        FLOAT,
    )
}
