"""Values of ONNX tensors, in the fields that scripts of PopART read them from.

In: an array. Out: a `TensorProto` with its values in the field of their type (`float_data`; half numbers as 16 bits in
`int32_data`). Large ones are written as bytes (`raw_data`): a field takes each number by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

MOST_TYPED = 1 << 20  # elements
_FIELDS: dict[int, str] = {
    onnx.TensorProto.FLOAT: "float_data",
    onnx.TensorProto.DOUBLE: "double_data",
    onnx.TensorProto.INT64: "int64_data",
    onnx.TensorProto.UINT32: "uint64_data",
    onnx.TensorProto.UINT64: "uint64_data",
}


def write_values(entry: onnx.TensorProto, name: str, kind: int, value: np.ndarray[Any, Any]) -> None:
    """Let a tensor hold these values, and nothing of what it held before."""
    entry.Clear()
    entry.name, entry.data_type = name, kind
    entry.dims.extend(value.shape)
    if value.size > MOST_TYPED:
        entry.raw_data = np.ascontiguousarray(value).tobytes()
        return
    flat = value.reshape(-1)
    if kind == onnx.TensorProto.FLOAT16:
        flat = flat.view(np.uint16)
    elif flat.dtype == np.bool_:
        flat = flat.astype(np.int32)
    getattr(entry, _FIELDS.get(kind, "int32_data")).extend(flat.tolist())
