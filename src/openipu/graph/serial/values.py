"""Arguments of nodes, attributes of notes and values of the host as JSON, and back, exactly.

5  2.5  true  null          themselves
"%7"                        the node with the number 7
[...]                       a list
{"tuple": [...]}            and other types that JSON lacks, under the names of `_DECODERS`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import torch
from torch import fx

from openipu.errors import ArchiveError

_WIDTHS = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64), "complex": (64, 128)}
_FLOAT8 = ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
# Without quantized and packed types, which no program is captured with.
DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        "bool",
        "bfloat16",
        *(f"{kind}{width}" for kind, widths in _WIDTHS.items() for width in widths),
        *(f"float8_{kind}" for kind in _FLOAT8),
    )
}
_LAYOUTS = {"strided": torch.strided}
_MEMORY_FORMATS = {
    str(item).removeprefix("torch."): item
    for item in (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
}
_DEVICES = ("cpu", "meta")
_PLAIN = (bool, int, float, type(None))
_REFERENCE = re.compile(r"%(\d{1,9})")

_LONGEST_SHOWN = 200  # characters

References = Mapping[fx.Node, str]


def shorten(value: object) -> str:
    """A value of a file for a message, which whoever wrote the file must not fill."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def encode_value(value: Any, references: References) -> Any:
    """A value as JSON; ArchiveError names the type of what cannot be written."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is fx.Node:
        return references[value]
    if isinstance(value, tuple) and kind in (tuple, torch.Size):
        return {"tuple": [encode_value(item, references) for item in value]}
    if isinstance(value, list):  # also fx's immutable one
        return [encode_value(item, references) for item in value]
    if isinstance(value, dict):
        return {
            "dict": [[encode_value(key, references), encode_value(item, references)] for key, item in value.items()]
        }
    if isinstance(value, str) and (kind is str or isinstance(value, Enum)):
        return {"text": str(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.layout) and value is torch.strided:
        return {"layout": "strided"}
    if isinstance(value, torch.memory_format):
        return {"memory_format": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device) and value.type in _DEVICES:
        return {"device": value.type}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    raise ArchiveError(f"a value of type {kind.__module__}.{kind.__qualname__} cannot be written to a file")


def decode_value(value: Any, nodes: Sequence[fx.Node]) -> Any:
    """The value again. A node must stand before those that use it."""
    kind = type(value)
    if kind is str:
        match = _REFERENCE.fullmatch(value)
        if match is None or int(match[1]) >= len(nodes):
            raise ArchiveError(f"{shorten(value)} is not a node that stands before")
        return nodes[int(match[1])]
    if kind is list:
        return [decode_value(item, nodes) for item in value]
    if kind is dict:
        if len(value) != 1:
            raise ArchiveError("a value has more than one type")
        ((name, content),) = value.items()
        decode = _DECODERS.get(name)
        if decode is None:
            raise ArchiveError(f"a value has the unknown type {shorten(name)}")
        return decode(content, nodes)
    return value


def _decode_dictionary(content: Any, nodes: Sequence[fx.Node]) -> dict[Any, Any]:
    return {decode_value(key, nodes): decode_value(item, nodes) for key, item in content}


def _pick(table: Mapping[str, Any]) -> Callable[[Any, Sequence[fx.Node]], Any]:
    def pick(content: Any, nodes: Sequence[fx.Node]) -> Any:
        if content not in table:
            raise ArchiveError(f"{shorten(content)} is unknown to this PyTorch")
        return table[content]

    return pick


def _decode_text(content: Any, nodes: Sequence[fx.Node]) -> str:
    if not isinstance(content, str):
        raise ArchiveError("a text is not a text")
    return content


_DECODERS: Mapping[str, Callable[[Any, Sequence[fx.Node]], Any]] = {
    "tuple": lambda content, nodes: tuple(decode_value(item, nodes) for item in content),
    "dict": _decode_dictionary,
    "text": _decode_text,
    "dtype": _pick(DTYPES),
    "layout": _pick(_LAYOUTS),
    "memory_format": _pick(_MEMORY_FORMATS),
    "device": _pick({name: torch.device(name) for name in _DEVICES}),
    "complex": lambda content, nodes: complex(*content),
}
