"""Streams between the host and the device: what `Session.run` takes and returns arrays for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from popxl.context import gmg
from popxl.dtypes import dtype
from popxl.tensor import Tensor, TensorSpec


class Stream:
    """One stream. `h2d_stream` and `d2h_stream` make them."""

    _stream_tensor: Tensor

    def __init__(self) -> None:
        raise NotImplementedError("Streams are made by `popxl.h2d_stream` and `popxl.d2h_stream`.")

    @classmethod
    def _make(cls, name: str, shape: Iterable[int], form: dtype) -> Any:
        made = object.__new__(cls)
        made._stream_tensor = gmg()._add_tensor(name, shape, form)
        return made

    @property
    def dtype(self) -> dtype:
        """The format of one transfer."""
        return self._stream_tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one transfer."""
        return self._stream_tensor.shape

    @property
    def spec(self) -> TensorSpec:
        """Shape and format of one transfer."""
        return self._stream_tensor.spec

    @property
    def tensor_id(self) -> str:
        """Its name."""
        return self._stream_tensor.id

    def __hash__(self) -> int:
        return hash(self._stream_tensor)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._stream_tensor == other._stream_tensor

    def __str__(self) -> str:
        return f"{type(self).__name__} {self._stream_tensor}"


class HostToDeviceStream(Stream):
    """Data for the device."""


class DeviceToHostStream(Stream):
    """Results for the host."""


def h2d_stream(shape: Iterable[int], dtype: dtype, name: str | None = None) -> HostToDeviceStream:
    """A stream that the program loads from."""
    made: HostToDeviceStream = HostToDeviceStream._make(name or "h2d_stream", shape, dtype)
    return made


def d2h_stream(shape: Iterable[int], dtype: dtype, name: str | None = None) -> DeviceToHostStream:
    """A stream that the program stores to."""
    made: DeviceToHostStream = DeviceToHostStream._make(name or "d2h_stream", shape, dtype)
    return made
