"""Messages of protocol buffers, read without their library.

In: bytes that may be anybody's, and the parts of them that are one message. Out: its fields, one after the other.
Lengths are checked against what is really there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from openipu.errors import TranslationError

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Field:
    """One field: a number for variable and fixed sizes (as its bits), bytes for everything else."""

    number: int
    value: int | memoryview
    file: str
    is_double: bool = False

    @property
    def whole(self) -> int:
        """A whole number, with its sign."""
        if isinstance(self.value, memoryview):
            raise self.fail("is not a number")
        return self.value - (1 << 64) if self.value >= 1 << 63 else self.value

    @property
    def floating(self) -> float:
        """A float or double, by its size."""
        if isinstance(self.value, memoryview):
            raise self.fail("is not a number")
        form, size = ("<d", 8) if self.is_double else ("<f", 4)
        if self.value >= 1 << (8 * size):
            raise self.fail("is not a floating-point number")
        return float(struct.unpack(form, self.value.to_bytes(size, "little"))[0])

    @property
    def message(self) -> memoryview:
        """Bytes: a message, a text or a packed list."""
        if not isinstance(self.value, memoryview):
            raise self.fail("has no bytes")
        return self.value

    @property
    def text(self) -> str:
        return str(self.message, "utf-8", "replace")

    @property
    def wholes(self) -> list[int]:
        """Whole numbers: one, or a packed list of them."""
        if not isinstance(self.value, memoryview):
            return [self.whole]
        found, position = [], 0
        while position < len(self.value):
            number, position = _read_varint(self.value, position, self.file)
            found.append(number - (1 << 64) if number >= 1 << 63 else number)
        return found

    def list_floating(self, *, doubles: bool = False) -> list[float]:
        """Floats or doubles: one, or a packed list of them."""
        if not isinstance(self.value, memoryview):
            return [self.floating]
        size = 8 if doubles else 4
        if len(self.value) % size:
            raise self.fail("is not a list of floating-point numbers")
        return list(struct.unpack(f"<{len(self.value) // size}{'d' if doubles else 'f'}", self.value))

    def fail(self, problem: str) -> TranslationError:
        return TranslationError(f"{self.file}: field {self.number} of a message {problem}. The file is damaged.")


def walk(view: memoryview, file: str) -> Iterator[Field]:
    """The fields of one message."""
    position, end = 0, len(view)
    while position < end:
        start = position
        tag, position = _read_varint(view, position, file)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise TranslationError(
                f"{file}: no field can have the number 0 (byte {start} of a message): it is damaged."
            )
        if kind == _VARINT:
            value, position = _read_varint(view, position, file)
            yield Field(number, value, file)
        elif kind in (_FIXED_64, _FIXED_32):
            size = 8 if kind == _FIXED_64 else 4
            if position + size > end:
                raise TranslationError(f"{file} is cut short: a field needs {position + size - end} more bytes.")
            whole = int.from_bytes(view[position : position + size], "little")
            position += size
            yield Field(number, whole, file, kind == _FIXED_64)
        elif kind == _BYTES:
            length, position = _read_varint(view, position, file)
            if position + length > end:
                raise TranslationError(f"{file} is cut short: a field needs {position + length - end} more bytes.")
            yield Field(number, view[position : position + length], file)
            position += length
        else:
            raise TranslationError(f"{file}: an unknown kind of field at byte {start} of a message: it is damaged.")


def _read_varint(view: memoryview, position: int, file: str) -> tuple[int, int]:
    value = shift = 0
    while position < len(view) and shift < 70:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), position
        shift += 7
    raise TranslationError(f"{file} is cut short or damaged at byte {position} of a message.")
