"""Number formats of ONNX and of torch.

In: a number of ONNX's `TensorProto.DataType`. Out: torch's dtype, or an error that names the tensor.
"""

from __future__ import annotations

import torch

from openipu.errors import TranslationError

DTYPES: dict[int, torch.dtype] = {
    1: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    4: torch.uint16,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float16,
    11: torch.float64,
    12: torch.uint32,
    13: torch.uint64,
    14: torch.complex64,
    15: torch.complex128,
    16: torch.bfloat16,
    17: torch.float8_e4m3fn,
    18: torch.float8_e4m3fnuz,
    19: torch.float8_e5m2,
    20: torch.float8_e5m2fnuz,
}
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
_NAMES = {0: "undefined", 8: "string", 21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0"}


def find_dtype(number: int, what: str) -> torch.dtype:
    """torch's dtype for a data type of ONNX."""
    found = DTYPES.get(number)
    if found is None:
        name = _NAMES.get(number, f"number {number}")
        raise TranslationError(f"{what} has the data type {name}, for which neither torch nor an IPU has tensors.")
    return found
