"""Streams between host and program, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Self, TypeVar

import popxl
from popxl import DeviceToHostStream, HostToDeviceStream
from popxl_addons.utils import OrderedDict

__all__ = ["InputStreams", "OutputStreams"]

Stream = TypeVar("Stream", HostToDeviceStream, DeviceToHostStream)


class _Streams(OrderedDict[str, Any], Generic[Stream]):
    """Streams by name and by position; iterating gives the streams themselves."""

    stream_init: Callable[..., Any]

    def __init__(self, **streams: tuple[tuple[int, ...], popxl.dtype]) -> None:
        super().__init__()
        make = type(self).stream_init
        self.update((name, make(*form, name)) for name, form in streams.items())

    @classmethod
    def from_streams(cls, streams: Iterable[Stream]) -> Self:
        """Streams that exist, by the names of their tensors."""
        group = cls()
        for stream in streams:
            group[stream.tensor_id] = stream
        return group

    def __getattr__(self, key: str) -> Any:
        if key not in self:
            raise AttributeError(f"there is no stream {key!r}, but: {', '.join(self.keys())}")
        return super().__getitem__(key)

    def __getitem__(self, key: str | int | slice) -> Any:
        if not isinstance(key, str):
            return [*self.values()][key]
        if key not in self:
            raise KeyError(f"there is no stream {key!r}, but: {', '.join(self.keys())}")
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())


class InputStreams(_Streams[HostToDeviceStream]):
    """``InputStreams(x=((2, 4), popxl.float32))``: what the host sends."""

    stream_init = staticmethod(popxl.h2d_stream)


class OutputStreams(_Streams[DeviceToHostStream]):
    """``OutputStreams(y=((2, 4), popxl.float32))``: what the host gets."""

    stream_init = staticmethod(popxl.d2h_stream)
