"""Programs in Paddle's legacy form: a `ProgramDesc`, as `.pdmodel` files and `Program.desc` hold it.

In: bytes, which may be anybody's. Out: a `PaddleProgram`.
"""

from __future__ import annotations

from typing import Any

import torch

from openipu.errors import TranslationError
from openipu.translate.paddle.program import DTYPES, PaddleBlock, PaddleOp, PaddleProgram, PaddleVariable
from openipu.translate.protobuf import Field, walk

MOST_BLOCKS = 4096
MOST_OPS = 1 << 20
_DENSE_TYPES = {7: 3, 8: 2, 13: 4}  # LOD_TENSOR, SELECTED_ROWS, LOD_TENSOR_ARRAY -> the field with its description


def read_legacy(content: bytes | memoryview, file: str = "") -> PaddleProgram:
    """Parse a serialised `ProgramDesc`."""
    what = file or "The Paddle program"
    view = memoryview(content)
    if not len(view):
        raise TranslationError(f"{what} is empty: it is not a program of Paddle.")
    blocks = [_read_block(entry.message, what) for entry in walk(view, what) if entry.number == 1]
    if not blocks:
        raise TranslationError(f"{what} has no block: it is not a program of Paddle.")
    if len(blocks) > MOST_BLOCKS or sum(len(block.ops) for block in blocks) > MOST_OPS:
        raise TranslationError(f"{what} has more blocks or ops than {MOST_BLOCKS} and {MOST_OPS}.")
    return PaddleProgram(tuple(blocks), file)


def _read_block(view: memoryview, what: str) -> PaddleBlock:
    variables: dict[str, PaddleVariable] = {}
    ops: list[PaddleOp] = []
    parent = -1
    for entry in walk(view, what):
        if entry.number == 2:
            parent = entry.whole
        elif entry.number == 3:
            variable = _read_variable(entry.message, what)
            variables[variable.name] = variable
        elif entry.number == 4:
            ops.append(_read_op(entry.message, len(ops), what))
    return PaddleBlock(variables, tuple(ops), parent)


def _read_variable(view: memoryview, what: str) -> PaddleVariable:
    name, persistable, is_parameter, stop = "", False, False, False
    kind: tuple[torch.dtype | None, tuple[int, ...]] = (None, ())
    for entry in walk(view, what):
        if entry.number == 1:
            name = entry.text
        elif entry.number == 2:
            kind = _read_type(entry.message, what)
        elif entry.number == 3:
            persistable = bool(entry.whole)
        elif entry.number == 5:
            is_parameter = bool(entry.whole)
        elif entry.number == 6:
            stop = bool(entry.whole)
    return PaddleVariable(name, kind[0], kind[1], persistable, is_parameter, stop)


def _read_type(view: memoryview, what: str) -> tuple[torch.dtype | None, tuple[int, ...]]:
    entries = list(walk(view, what))
    kind = next((entry.whole for entry in entries if entry.number == 1), -1)
    place = _DENSE_TYPES.get(kind)
    for entry in entries:
        if entry.number != place:
            continue
        if kind == 8:
            return read_tensor_type(entry.message, what)
        for part in walk(entry.message, what):
            if part.number == 1:
                return read_tensor_type(part.message, what)
    return None, ()


def read_tensor_type(view: memoryview, what: str) -> tuple[torch.dtype | None, tuple[int, ...]]:
    """A `TensorDesc`: number format and shape."""
    dtype: torch.dtype | None = None
    shape: list[int] = []
    for entry in walk(view, what):
        if entry.number == 1:
            dtype = DTYPES.get(entry.whole)
        elif entry.number == 2:
            shape += entry.wholes
    if len(shape) > 64:
        raise TranslationError(f"{what}: a tensor of {len(shape)} dimensions. The file is damaged.")
    return dtype, tuple(shape)


def _read_op(view: memoryview, number: int, what: str) -> PaddleOp:
    kind = ""
    inputs: dict[str, tuple[str, ...]] = {}
    outputs: dict[str, tuple[str, ...]] = {}
    attributes: dict[str, Any] = {}
    for entry in walk(view, what):
        if entry.number == 3:
            kind = entry.text
        elif entry.number in (1, 2):
            slot, names = _read_slot(entry.message, what)
            if names:
                (inputs if entry.number == 1 else outputs)[slot] = names
        elif entry.number == 4:
            name, value = _read_attribute(entry.message, what)
            attributes[name] = value
    if not kind:
        raise TranslationError(f"{what}: op number {number} has no type. The file is damaged.")
    return PaddleOp(kind, inputs, outputs, attributes, number)


def _read_slot(view: memoryview, what: str) -> tuple[str, tuple[str, ...]]:
    slot, names = "", []
    for entry in walk(view, what):
        if entry.number == 1:
            slot = entry.text
        elif entry.number == 2:
            names.append(entry.text)
    return slot, tuple(names)


def _read_attribute(view: memoryview, what: str) -> tuple[str, Any]:
    name, kind = "", -1
    found: dict[int, list[Field]] = {}
    for entry in walk(view, what):
        if entry.number == 1:
            name = entry.text
        elif entry.number == 2:
            kind = entry.whole
        else:
            found.setdefault(entry.number, []).append(entry)
    return name, _read_value(kind, found, what)


def _read_value(kind: int, found: dict[int, list[Field]], what: str) -> Any:
    def last(number: int) -> Field | None:
        entries = found.get(number)
        return entries[-1] if entries else None

    def wholes(number: int) -> list[int]:
        return [item for entry in found.get(number, ()) for item in entry.wholes]

    one = {0: 3, 9: 13, 8: 12}.get(kind)  # INT, LONG, BLOCK
    if one is not None:
        entry = last(one)
        return 0 if entry is None else _narrow(entry.whole, kind == 0)
    if kind in (1, 15):  # FLOAT, FLOAT64
        entry = last(4 if kind == 1 else 19)
        return 0.0 if entry is None else entry.floating
    if kind in (2, 13):  # STRING, VAR
        entry = last(5 if kind == 2 else 17)
        return "" if entry is None else entry.text
    if kind == 6:
        entry = last(10)
        return entry is not None and bool(entry.whole)
    many = {3: 6, 11: 15, 10: 14}.get(kind)  # INTS, LONGS, BLOCKS
    if many is not None:
        return [_narrow(item, kind == 3) for item in wholes(many)]
    if kind in (4, 12):  # FLOATS, FLOAT64S
        entries = found.get(7 if kind == 4 else 16, ())
        return [item for entry in entries for item in entry.list_floating(doubles=kind == 12)]
    if kind in (5, 14):  # STRINGS, VARS
        return [entry.text for entry in found.get(8 if kind == 5 else 18, ())]
    if kind == 7:
        return [bool(item) for item in wholes(11)]
    if kind == 16:
        entry = last(20)
        return None if entry is None else _read_scalar(entry.message, what)
    if kind == 17:
        return [_read_scalar(entry.message, what) for entry in found.get(21, ())]
    raise TranslationError(
        f"{what}: an attribute has the unknown kind {kind}. The file is damaged, or of a newer Paddle."
    )


def _narrow(value: int, small: bool) -> int:
    """Negative numbers of 32 bits are written with 64; some writers leave out the upper half."""
    return value - (1 << 32) if small and 1 << 31 <= value < 1 << 32 else value


def _read_scalar(view: memoryview, what: str) -> Any:
    value: Any = None
    for entry in walk(view, what):
        if entry.number == 2:
            value = bool(entry.whole)
        elif entry.number == 3:
            value = entry.whole
        elif entry.number == 4:
            value = entry.floating
        elif entry.number == 5:
            parts = {part.number: part.floating for part in walk(entry.message, what)}
            value = complex(parts.get(1, 0.0), parts.get(2, 0.0))
    return value
