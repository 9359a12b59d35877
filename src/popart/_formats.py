"""Number formats under the names that PopART, NumPy, torch and ONNX have for them.

In: a name, a dtype or a number of any of these. Out: one row of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from popart._enumerations.tensors import DataType
from popart._exceptions import popart_exception


@dataclass(frozen=True, slots=True)
class Format:
    """One number format."""

    name: str  # "FLOAT"
    small: str  # "float32"
    onnx: int  # TensorProto.DataType
    torch: torch.dtype | None
    on_device: str  # what an IPU holds in its place

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.small)

    @property
    def number(self) -> DataType:
        return DataType[self.name]


FORMATS = (
    Format("FLOAT", "float32", 1, torch.float32, "FLOAT"),
    Format("UINT8", "uint8", 2, torch.uint8, "UINT8"),
    Format("INT8", "int8", 3, torch.int8, "INT8"),
    Format("UINT16", "uint16", 4, torch.uint16, "UINT16"),
    Format("INT16", "int16", 5, torch.int16, "INT16"),
    Format("INT32", "int32", 6, torch.int32, "INT32"),
    Format("INT64", "int64", 7, torch.int64, "INT32"),
    Format("BOOL", "bool", 9, torch.bool, "BOOL"),
    Format("FLOAT16", "float16", 10, torch.float16, "FLOAT16"),
    Format("DOUBLE", "float64", 11, torch.float64, "FLOAT"),
    Format("UINT32", "uint32", 12, torch.uint32, "UINT32"),
    Format("UINT64", "uint64", 13, torch.uint64, "UINT32"),
)
BY_NAME = {entry.name: entry for entry in FORMATS}
_BY_SMALL = {entry.small: entry for entry in FORMATS}
BY_ONNX = {entry.onnx: entry for entry in FORMATS}
BY_TORCH = {entry.torch: entry for entry in FORMATS}


def find_format(given: Any) -> Format:
    """The format that a name ("FLOAT", "float32"), a NumPy dtype or a `DataType` stands for."""
    if isinstance(given, Format):
        return given
    if isinstance(given, DataType):
        given = given.name
    if isinstance(given, str):
        found = BY_NAME.get(given.upper()) or _BY_SMALL.get(given.lower())
    else:
        try:
            found = _BY_SMALL.get(np.dtype(given).name)
        except TypeError:
            found = None
    if found is None:
        raise popart_exception(f"No type {given!r}. Known are {', '.join(BY_NAME)}, and NumPy's names of them.")
    return found
