"""Protobuf messages as bytes, as far as a trace needs them.

In: field numbers with values. Out: their encoding. A message is the fields of it, one after the other.
"""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; negative numbers as 64 bits."""
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def number(field: int, value: int) -> bytes:
    """An integer, a flag or an enumeration."""
    return varint(field << 3) + varint(value)


def real(field: int, value: float) -> bytes:
    """A double."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def text(field: int, value: str) -> bytes:
    """A string. What is no Unicode text, half of a pair of surrogates, becomes a question mark."""
    return message(field, value.encode("utf-8", "replace"))


def message(field: int, *parts: bytes) -> bytes:
    """A message of these fields, or plain bytes."""
    content = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(content)) + content
