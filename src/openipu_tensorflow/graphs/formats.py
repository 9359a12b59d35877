"""Number formats and attributes of TensorFlow, as torch and Python have them."""

from __future__ import annotations

from typing import Any

import numpy
import torch

import tensorflow as tf

FORMATS: dict[Any, torch.dtype] = {
    tf.bool: torch.bool,
    tf.int8: torch.int8,
    tf.uint8: torch.uint8,
    tf.int16: torch.int16,
    tf.int32: torch.int32,
    tf.int64: torch.int64,
    tf.uint16: torch.int32,  # torch computes with no unsigned numbers but uint8
    tf.uint32: torch.int64,
    tf.uint64: torch.int64,
    tf.float16: torch.float16,
    tf.bfloat16: torch.bfloat16,
    tf.float32: torch.float32,
    tf.float64: torch.float64,
    tf.complex64: torch.complex64,
    tf.complex128: torch.complex128,
}
_WIDENED = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}


def find_format(dtype: Any) -> torch.dtype | None:
    """The format of a tensor; None for texts, handles and the like."""
    return FORMATS.get(tf.as_dtype(dtype).base_dtype)


def to_torch(value: Any) -> torch.Tensor:
    """A value of TensorFlow or NumPy as a tensor of its own."""
    array = numpy.asarray(value)
    if array.dtype.name in _WIDENED:
        return torch.from_numpy(array.astype(_WIDENED[array.dtype.name]))
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.astype(numpy.float32)).to(torch.bfloat16)
    return torch.from_numpy(numpy.array(array, order="C", copy=True))


def to_numpy(value: torch.Tensor, dtype: Any) -> Any:
    """A result in the format that TensorFlow expects of it."""
    wanted = tf.as_dtype(dtype).as_numpy_dtype
    plain = value.to(torch.float32) if value.dtype is torch.bfloat16 else value
    return plain.numpy().astype(wanted, copy=False)


def read_attribute(value: Any) -> Any:
    """An attribute of a node, but for functions, as plain Python."""
    kind = value.WhichOneof("value")
    match kind:
        case "s":
            return value.s.decode("utf-8", "replace")
        case "i" | "f" | "b":
            return getattr(value, kind)
        case "type":
            return find_format(value.type)
        case "shape":
            return None if value.shape.unknown_rank else [entry.size for entry in value.shape.dim]
        case "tensor":
            return _read_tensor(value.tensor)
        case "list":
            return _read_list(value.list)
    return None


def _read_tensor(value: Any) -> Any:
    array = tf.make_ndarray(value)
    if array.dtype == object:
        return list(array.reshape(-1).tolist())
    return to_torch(array)


def _read_list(value: Any) -> list[Any]:
    for field in ("s", "i", "f", "b", "type", "shape", "tensor"):
        found = getattr(value, field)
        if len(found):
            match field:
                case "s":
                    return [entry.decode("utf-8", "replace") for entry in found]
                case "type":
                    return [find_format(entry) for entry in found]
                case "shape":
                    return [None if entry.unknown_rank else [size.size for size in entry.dim] for entry in found]
                case "tensor":
                    return [_read_tensor(entry) for entry in found]
            return list(found)
    return []
