"""Arrays as ONNX holds them.

In: an array. Out: a TensorProto. Small ones are in fields of their type, where people who read models look for them;
large ones as bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from popart._formats import find_format

_MOST_TYPED = 1 << 16  # elements
_FIELDS = {"FLOAT": "float_data", "INT32": "int32_data", "INT64": "int64_data", "DOUBLE": "double_data"}


def make_tensor(value: Any, name: str = "") -> onnx.TensorProto:
    """An array with its shape; one without dimensions keeps having none."""
    array = np.asarray(value)
    kind = find_format(array.dtype)
    tensor = onnx.TensorProto(name=name, data_type=kind.onnx, dims=array.shape)
    field = _FIELDS.get(kind.name)
    if field is not None and array.size <= _MOST_TYPED:
        getattr(tensor, field).extend(array.reshape(-1).tolist())
    else:
        tensor.raw_data = np.ascontiguousarray(array).tobytes()
    return tensor
