"""The host's side of a run: buffers, callbacks, functions and printing, connected by handle.

In: what the user connected. Out: elements for the engine. A buffer with an end is a ring with one cursor; without, each
transfer begins at its beginning. Callbacks of streams to the device may be asked in advance.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
import torch

from openipu.graph.mapped import Array, ElementType, MappedProgram, MappedStream, StreamKind
from openipu.host.tensor_text import TextStyle, format_tensor
from poplar._errors import stream_connection_error
from poplar.execution.streams import FunctionCallback, HostCallback, StreamCallback

_STYLE = TextStyle(digits=8, separator=" ", open_bracket="[", close_bracket="]", max_line_width=75)


class Ring:
    """A user's buffer with a cursor. What a run reads and writes is the user's own memory."""

    def __init__(self, stream: MappedStream, values: npt.NDArray[Any], circular: bool) -> None:
        if values.dtype != stream.type.dtype:
            raise stream_connection_error(
                f"Stream {stream.handle!r} has elements of {stream.type} ({stream.type.dtype}), and the buffer is "
                f"{values.dtype}. Convert it: buffer.astype({str(stream.type.dtype)!r})."
            )
        if not values.flags.c_contiguous or (stream.kind is StreamKind.FROM_DEVICE and not values.flags.writeable):
            raise stream_connection_error(
                f"Stream {stream.handle!r}: the buffer must be contiguous and, for a stream to the host, writeable."
            )
        self._flat = values.reshape(-1)
        if self._flat.size < stream.elements or (circular and self._flat.size % stream.elements):
            raise stream_connection_error(
                f"Stream {stream.handle!r} moves {stream.elements} elements at a time, and the buffer has "
                f"{self._flat.size}: it must have {'a whole multiple of that' if circular else 'at least that many'}."
            )
        self._circular = circular
        self._cursor = 0
        self._elements = stream.elements

    def take(self) -> Array:
        """The next elements."""
        start = self._cursor
        if self._circular:
            self._cursor = (start + self._elements) % self._flat.size
        return self._flat[start : start + self._elements]

    def put(self, values: Array) -> None:
        self.take()[...] = values


class ConnectedCallback:
    """A user's callback, with what was fetched in advance."""

    def __init__(self, callback: StreamCallback, stream: MappedStream, *, prefetches: bool) -> None:
        self._callback = callback
        self._stream = stream
        self._prefetches = prefetches and stream.kind is StreamKind.TO_DEVICE
        self._ready: Array | None = None

    def take(self) -> Array:
        if self._ready is not None:
            buffer, self._ready = self._ready, None
        else:
            buffer = np.zeros(self._stream.elements, dtype=self._stream.type.dtype)
            self._callback.fetch(buffer)
        self._callback.complete()
        if self._prefetches:
            ahead = np.zeros(self._stream.elements, dtype=self._stream.type.dtype)
            if self._callback.prefetch(ahead) is StreamCallback.Result.Success:
                self._ready = ahead
        return buffer

    def put(self, values: Array) -> None:
        self._callback.fetch(np.array(values))
        self._callback.complete()

    def close(self) -> None:
        """Another callback takes over."""
        if self._ready is not None:
            self._callback.invalidatePrefetched()
            self._ready = None


class EngineHost:
    """Implements `openipu.run.mapped.host.Host`."""

    def __init__(self, program: MappedProgram, *, prefetches: bool) -> None:
        self._program = program
        self._prefetches = prefetches
        self._ends: dict[tuple[int, int], Ring | ConnectedCallback] = {}
        self._functions: dict[int, Any] = {}
        self.print_stream: TextIO | None = None
        self.print_format: str = "current"

    def connect(self, number: int, replica: int, end: Any, *, circular: bool) -> None:
        stream = self._program.streams[number]
        old = self._ends.get((number, replica))
        if isinstance(old, ConnectedCallback):
            old.close()
        if isinstance(end, StreamCallback):
            made: Ring | ConnectedCallback = ConnectedCallback(end, stream, prefetches=self._prefetches)
        elif callable(end):
            made = ConnectedCallback(FunctionCallback(end), stream, prefetches=False)
        else:
            made = Ring(stream, end, circular)
        self._ends[number, replica] = made

    def connect_function(self, number: int, function: Any) -> None:
        self._functions[number] = function

    def _find(self, stream: int, replica: int) -> Ring | ConnectedCallback:
        end = self._ends.get((stream, replica)) or self._ends.get((stream, 0))
        if end is None:
            handle = self._program.streams[stream].handle
            raise stream_connection_error(
                f"Stream {handle!r} is not connected. Call engine.connectStream({handle!r}, buffer) or "
                f"engine.connectStreamToCallback({handle!r}, callback) before engine.run."
            )
        return end

    def feed(self, stream: int, elements: int, replica: int) -> Array:
        return self._find(stream, replica).take()

    def drain(self, stream: int, values: Array, replica: int) -> None:
        self._find(stream, replica).put(values)

    def call(self, function: int, inputs: Sequence[Array], replica: int) -> Sequence[Array]:
        entry = self._program.host_functions[function]
        connected: Callable[..., Any] | HostCallback | None = self._functions.get(function)
        if connected is None:
            raise stream_connection_error(
                f"The host function {entry.handle!r} is not connected. Call "
                f"engine.connectHostFunction({entry.handle!r}, function) before engine.run."
            )
        given = [np.ascontiguousarray(values).reshape(-1) for values in inputs]
        outputs = [np.zeros(elements, dtype=element.dtype) for element, elements in entry.outputs]
        if isinstance(connected, HostCallback):
            connected.call(given, outputs)
        else:
            connected(given, outputs)
        return outputs

    def show(self, title: str, values: Array, element: ElementType) -> None:
        out = self.print_stream or sys.stderr
        if self.print_format == "braces":
            out.write(f"{title}: {_write_braces(np.asarray(values))}\n")
            return
        shown = np.ascontiguousarray(values)
        if shown.dtype in (np.uint16, np.uint32, np.uint64):
            shown = shown.astype(np.int64)
        out.write(format_tensor(torch.from_numpy(shown.copy()).reshape(values.shape), _STYLE, title) + "\n")


def _write_braces(values: Array, depth: int = 0) -> str:
    """As SDKs up to 2.3 printed: {1,1.5}."""
    if values.ndim == 0:
        number = values.item()
        return format(number, "g") if isinstance(number, float) else str(int(number))
    if values.ndim == 1:
        return "{" + ",".join(_write_braces(entry) for entry in values) + "}"
    indent = " " * (depth + 1)
    return "{\n" + ",\n".join(indent + _write_braces(entry, depth + 1) for entry in values) + "\n" + " " * depth + "}"
