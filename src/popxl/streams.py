"""Streams between the host and the device: what `Session.run` takes and returns arrays for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from popxl.context import gmg
from popxl.dtypes import dtype
from popxl.tensor import Tensor, TensorSpec


class Stream:
    """One stream. `h2d_stream` and `d2h_stream` make them."""

    _carried: Tensor

    def __init__(self) -> None:
        raise NotImplementedError("Streams are made by `popxl.h2d_stream` and `popxl.d2h_stream`.")

    @classmethod
    def _make(cls, name: str, shape: Iterable[int], form: dtype) -> Any:
        made = object.__new__(cls)
        made._carried = gmg()._add_tensor(name, shape, form)
        return made

    @property
    def dtype(self) -> dtype:
        """The format of one transfer."""
        return self._carried.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one transfer."""
        return self._carried.shape

    @property
    def spec(self) -> TensorSpec:
        """Shape and format of one transfer."""
        return self._carried.spec

    @property
    def tensor_id(self) -> str:
        """Its name."""
        return self._carried.id

    def __eq__(self, other: object) -> bool:
        return self._carried is getattr(other, "_carried", None)

    def __hash__(self) -> int:
        return hash((Stream, self._carried))

    def __str__(self) -> str:
        return f"{type(self).__name__} {self._carried}"


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
