"""Number formats in which PyTorch calculates with element types.

In: an element type. Out: a dtype. Types that PyTorch cannot calculate with, such as unsigned 32-bit numbers, are
widened; on an IPU they take no more than before, which is how the op table counts them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from openipu.graph.mapped.elements import ElementType

WIDENED: Mapping[str, torch.dtype] = {"uint16": torch.int32, "uint32": torch.int64, "uint64": torch.int64}
FORMATS: Mapping[str, torch.dtype] = {
    name: getattr(torch, name) for name in ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32")
}


def choose_format(element: ElementType) -> torch.dtype:
    """The number format in which PyTorch calculates with elements of this type."""
    return WIDENED.get(element.format) or FORMATS[element.format]
