"""`ipu.f8_ops`: numbers of eight bits. Products are taken of the numbers that the bits stand for.

Plans price a product as one of half numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any

from openipu_tensorflow.graphs.device_ops import add_device_op


class Format(IntEnum):
    """How the bits are shared out: sign, exponent, mantissa."""

    F143 = 0
    F152 = 1


def create_metadata(fmt: Format, scale: int = 0) -> int:
    """The byte that stands beside a tensor: numbers are what their bits say, times 2 ** scale."""
    return (0x80 if fmt == Format.F143 else 0) | (scale & 0x3F)


class QuarterTensor:
    """Bytes, and the byte that says what they mean."""

    def __init__(self, data: Any, metadata: Any) -> None:
        self.data, self.metadata = _to_bytes(data), _to_bytes(metadata)

    def numpy(self) -> list[Any]:
        """[data, metadata]"""
        return [self.data.numpy(), self.metadata.numpy()]

    def assign(self, new_values: Sequence[Any], **kwargs: Any) -> None:
        """Take over [data, metadata], as `numpy` gives them."""
        self.data, self.metadata = _to_bytes(new_values[0]), _to_bytes(new_values[1])

    @property
    def shape(self) -> Any:
        return self.data.shape

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: Any) -> Any:
        return self.data[index]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.data, self.metadata))

    def __eq__(self, other: object) -> bool:
        import numpy

        if not isinstance(other, QuarterTensor):
            return NotImplemented
        pairs = zip(self.numpy(), other.numpy(), strict=True)
        return all(numpy.array_equal(one, another) for one, another in pairs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"QuarterTensor(data={self.data}, metadata={self.metadata})"


def _to_bytes(value: Any) -> Any:
    from tensorflow.python.framework import dtypes, ops

    if not hasattr(value, "dtype") or type(value).__module__ == "numpy":
        value = ops.convert_to_tensor(value, dtype=dtypes.uint8)
    if value.dtype != dtypes.uint8:
        raise TypeError(
            f"A QuarterTensor is made of uint8, and got a tensor of {value.dtype.name}. Give it what convert_to_f8 "
            "returns."
        )
    return value


def convert_to_f8(values: Any, metadata: Any, name: str | None = None) -> QuarterTensor:
    """Numbers rounded to eight bits, in the format and with the scale that the metadata say."""
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import math_ops

    half = math_ops.cast(values, dtypes.float16)
    known = ops.convert_to_tensor(metadata, dtype=dtypes.uint8)
    (data,) = add_device_op("IpuConvertToF8", [half, known], [(dtypes.uint8, half.shape)])
    return QuarterTensor(data, known)


def convert_from_f8(packed_input: Any, dtype: Any = None, name: str | None = None) -> Any:
    """The numbers of a `QuarterTensor`, or of (data, metadata); half ones unless another type is given."""
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import math_ops

    data, metadata = packed_input
    known = ops.convert_to_tensor(metadata, dtype=dtypes.uint8)
    (half,) = add_device_op("IpuConvertFromF8", [data, known], [(dtypes.float16, data.shape)])
    return half if dtype is None else math_ops.cast(half, dtype)


def _widen(value: Any) -> Any:
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import math_ops

    if isinstance(value, QuarterTensor):
        return convert_from_f8(value)
    return math_ops.cast(ops.convert_to_tensor(value), dtypes.float16)


def f8_matmul(lhs: Any, rhs: Any, name: str = "f8_matmul") -> Any:
    """A product of matrices, or of batches of them, as half numbers."""
    from tensorflow.python.ops import math_ops

    left, right = _widen(lhs), _widen(rhs)
    if not left.shape.is_fully_defined() or not right.shape.is_fully_defined():
        raise ValueError(f"f8_matmul needs shapes that are fully defined, not {left.shape} and {right.shape}.")
    return math_ops.matmul(left, right, name=name)


def f8_conv_1d(
    inputs: Any,
    filters: Any,
    strides: Any,
    padding: str,
    data_format: str = "NWC",
    dilations: Any = 1,
    name: str = "f8_conv_1d",
) -> Any:
    """A convolution over one dimension, as half numbers."""
    from tensorflow.python.ops import nn_ops

    if data_format not in ("NWC", "NCW"):
        raise ValueError(f"data_format is 'NWC' or 'NCW', not {data_format!r}.")
    return nn_ops.conv1d_v2(_widen(inputs), _widen(filters), strides, padding, data_format, dilations, name=name)


def f8_conv_2d(
    inputs: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str = "f8_conv_2d",
) -> Any:
    """A convolution over two dimensions, as half numbers."""
    from tensorflow.python.ops import nn_ops

    return nn_ops.conv2d_v2(_widen(inputs), _widen(filters), strides, padding, data_format, list(dilations), name=name)


def f8_conv_3d(
    inputs: Any,
    filters: Any,
    strides: Any,
    padding: str,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str = "f8_conv_3d",
) -> Any:
    """A convolution over three dimensions, as half numbers."""
    from tensorflow.python.ops import nn_ops

    return nn_ops.conv3d_v2(_widen(inputs), _widen(filters), strides, padding, data_format, list(dilations), name=name)
