"""One C++ program's requests, by name.

In: `[name, arguments…]` from the channel. Out: the answer of the handler of that name. What the program refers to later
(targets, devices, graphs, engines, library programs) is kept here under a number.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from openipu.errors import OpenIpuError, is_debugging
from openipu.graph import SourceLine
from poplar import _lines
from poplar._errors import poplar_error
from poplar._graph import Graph
from poplar.server.channel import Channel, ClosedError
from poplar.server.wire import Handle

Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {}
_GRACE_SECONDS = 5.0


def handles(name: str) -> Callable[[Handler], Handler]:
    """Register a function of (session, arguments…) for a request."""

    def register(function: Handler) -> Handler:
        HANDLERS[name] = function
        return function

    return register


class Session:
    """What one program has made so far."""

    def __init__(self, descriptor: int) -> None:
        self.channel = Channel(descriptor, self.find_graph, self.number_graph)
        self.lines: dict[int, list[int]] = {}  # of each graph: the program's number of a line -> ours
        self._objects: list[Any] = []
        self._graphs: dict[int, int] = {}  # id of what a graph shares with its virtual graphs -> number

    def keep(self, value: Any) -> int:
        """A number for an object."""
        self._objects.append(value)
        return len(self._objects) - 1

    def find(self, handle: Handle | int) -> Any:
        return self._objects[handle.number if isinstance(handle, Handle) else handle]

    def drop(self, handle: Handle) -> None:
        self._objects[handle.number] = None

    def keep_graph(self, graph: Graph) -> int:
        number = self.keep(graph)
        self._graphs.setdefault(id(graph.shared), number)
        return number

    def find_graph(self, number: int) -> Graph:
        found = self._objects[number]
        assert isinstance(found, Graph)
        return found

    def number_graph(self, graph: Graph) -> int:
        return self._graphs[id(graph.shared)]

    def run(self) -> None:
        """Serve until the program is gone."""
        self.channel.answer("openipu")
        while True:
            try:
                name, *arguments = self.channel.receive()
                answer = HANDLERS[name](self, *arguments)
            except ClosedError:
                return
            except (poplar_error, OpenIpuError) as error:
                self._report()
                self.channel.fail(type(error).__name__, str(error))
                continue
            except Exception as error:
                self._report()
                text = f"{type(error).__name__}: {error} (a defect of openipu, or a call that it does not know)"
                self.channel.fail("poplar_error", text)
                continue
            finally:
                sys.stdout.flush()
            self.channel.answer(answer)

    def _report(self) -> None:
        if is_debugging():
            traceback.print_exc()


@contextlib.contextmanager
def at_line(context: list[Any]) -> Iterator[str]:
    """While a request of this place in the user's source is worked on; the name in the context comes out."""
    name, file, line, function = context
    with _lines.given_line(SourceLine(file, line, function)) if line else contextlib.nullcontext():
        yield name


def serve(descriptor: int) -> None:
    """Serve one C++ program."""
    for part in ("devices", "engines", "graphs", "libraries"):
        importlib.import_module(f"poplar.server.{part}")  # each registers its handlers
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_end_with_program, args=(descriptor,), daemon=True).start()
    Session(descriptor).run()


def _end_with_program(descriptor: int) -> None:
    """A program that is killed while its engine computes leaves nothing behind."""
    watched = select.poll()
    watched.register(descriptor, select.POLLRDHUP | select.POLLHUP)
    watched.poll()
    time.sleep(_GRACE_SECONDS)  # idle, the session sees the end by itself
    os._exit(1)
