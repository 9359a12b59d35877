"""The socket to a C++ program.

In: bytes of requests. Out: answers, errors, and while a request is worked on, questions and notices of our own.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

from poplar._errors import application_runtime_error
from poplar._graph import Graph
from poplar.server.wire import Reader, Writer

_ANSWER, _FAILURE, _QUESTION, _NOTICE = range(4)
_SIZE = struct.Struct("<Q")


class ClosedError(Exception):
    """The C++ program is gone."""


class Channel:
    """Messages of one C++ program."""

    def __init__(
        self, descriptor: int, find_graph: Callable[[int], Graph], number_graph: Callable[[Graph], int]
    ) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._find_graph = find_graph
        self._number_graph = number_graph

    def receive(self) -> Any:
        """The next request."""
        return Reader(self._receive_bytes(), self._find_graph).read()

    def answer(self, value: Any) -> None:
        self._send(_ANSWER, value)

    def fail(self, kind: str, message: str) -> None:
        self._send(_FAILURE, [kind, message])

    def ask(self, *question: Any) -> Any:
        """Ask the C++ program, and wait for what it says."""
        self._send(_QUESTION, question)
        answer = self.receive()
        if answer is None:
            raise application_runtime_error(f"{question[0]} of {question[2]!r}: the program's own callback failed.")
        return answer

    def tell(self, *notice: Any) -> None:
        self._send(_NOTICE, notice)

    def _send(self, mark: int, value: Any) -> None:
        writer = Writer(self._number_graph)
        writer.write(value)
        content = writer.finish()
        try:
            self._socket.sendall(_SIZE.pack(len(content) + 1) + bytes([mark]) + content)
        except OSError as error:
            raise ClosedError from error

    def _receive_bytes(self) -> bytes:
        (size,) = _SIZE.unpack(self._receive_exactly(_SIZE.size))
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> bytes:
        content = bytearray(size)
        view = memoryview(content)
        while view:
            try:
                count = self._socket.recv_into(view)
            except OSError as error:
                raise ClosedError from error
            if not count:
                raise ClosedError
            view = view[count:]
        return bytes(content)
