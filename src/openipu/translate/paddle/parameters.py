"""Weights in Paddle's binary form: `.pdiparams`, one tensor behind the other in the order of their names.

In: a map of the file, and the names. Out: weights by name, read when asked for. Sizes are checked before data are read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import torch

from openipu.errors import TranslationError
from openipu.translate.foreign import Weight
from openipu.translate.paddle.legacy import read_tensor_type

LARGEST_TENSOR = 1 << 40


def read_parameters(view: memoryview, names: Sequence[str], file: str) -> dict[str, Weight]:
    """The tensors of a combined file. `names` are sorted here as Paddle sorts them when it writes."""
    found: dict[str, Weight] = {}
    position = 0
    for name in sorted(names):
        found[name], position = _read_tensor(view, position, f"{file}: weight {name!r}")
    if position != len(view):
        raise TranslationError(
            f"{file} has {len(view) - position} bytes more than the {len(found)} weights of the model need: it belongs "
            "to another model, or is damaged."
        )
    return found


def _read_tensor(view: memoryview, position: int, what: str) -> tuple[Weight, int]:
    def take(size: int) -> memoryview:
        nonlocal position
        if size < 0 or position + size > len(view):
            raise TranslationError(f"{what} lies behind the end of the file: it is cut short, or of another model.")
        part = view[position : position + size]
        position += size
        return part

    version, levels = struct.unpack("<IQ", take(12))
    if version != 0 or levels > 64:
        raise TranslationError(f"{what} has the unknown version {version}: the file is damaged, or no file of weights.")
    for _ in range(levels):
        take(struct.unpack("<Q", take(8))[0])
    version, size = struct.unpack("<Ii", take(8))
    if version != 0:
        raise TranslationError(f"{what} has the unknown version {version}: the file is damaged, or no file of weights.")
    dtype, shape = read_tensor_type(take(size), what)
    if dtype is None or any(extent < 0 for extent in shape) or math.prod(shape) > LARGEST_TENSOR:
        raise TranslationError(f"{what} has the shape {list(shape)}, which no tensor can have. The file is damaged.")
    data = take(math.prod(shape) * dtype.itemsize)
    return Weight(dtype, shape, lambda: _copy(data, dtype, shape)), position


def _copy(data: memoryview, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    if not len(data):
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)  # a copy: the map is read only
