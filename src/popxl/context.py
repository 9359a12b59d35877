"""Where ops that are made now belong: the graph, the IPU, the tiles, the name scope, the order.

In: context managers of the user's. Out: the `Context` that each new op asks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

from openipu.capture import find_user_line
from openipu.graph import Phase, SourceLine
from popxl.tensorlocation import ExecutionContext

if TYPE_CHECKING:
    from popxl._ir.operation import Op
    from popxl.graph import Graph
    from popxl.ir import Ir

_HINT = "Build in `with ir.main_graph:`, in `with graph:`, or in a function that `ir.create_graph` is given."


class Context:
    """The state of all context managers."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._graphs: list[Graph] = []  # the innermost last
        self._scopes: tuple[str, ...] = ()
        self._ipu = 0
        self._on_io_tiles = False
        self._ordered: bool | None = None
        self._execution_context = ExecutionContext.Normal
        self._skipped_frames = 0
        self._watchers: dict[int, Callable[[Op], Any]] = {}
        self._numbers = itertools.count(1)
        self._phase = Phase.FORWARD
        self._line: SourceLine | None = None

    @property
    def ipu_id(self) -> int:
        """The IPU of new ops."""
        return self._ipu

    @property
    def io_tile_set(self) -> bool:
        """Are new ops on I/O tiles?"""
        return self._on_io_tiles

    @property
    def phase(self) -> Phase:
        """The part of a training step that new ops belong to."""
        return self._phase

    def find_line(self) -> SourceLine | None:
        """The user's line that makes the new op, or the one that it follows from."""
        return self._line if self._line is not None else find_user_line()

    @contextmanager
    def standing_for(self, phase: Phase, line: SourceLine | None) -> Iterator[None]:
        """New ops follow from an op of this line."""
        before = self._phase, self._line
        self._phase, self._line = phase, line
        try:
            yield
        finally:
            self._phase, self._line = before

    @property
    def name_scopes(self) -> list[str]:
        """The scopes that are open, the outermost first."""
        return [*self._scopes]

    def push_graph(self, g: Graph) -> None:
        if self._graphs and self._graphs[0].ir != g.ir:
            raise RuntimeError(
                f"This graph is of a different program ({g.ir}) than the one that is being built "
                f"({self._graphs[0].ir}). "
                "Leave that context first."
            )
        self._graphs.append(g)

    def pop_graph(self) -> Graph:
        return self._graphs.pop()

    @property
    def graph(self) -> Graph:
        """The innermost graph."""
        if not self._graphs:
            raise RuntimeError(f"There is nothing to add ops to: no graph has been selected. {_HINT}")
        return self._graphs[-1]

    @property
    def main_graph(self) -> Graph:
        """The main graph of the program that is being built."""
        if not self._graphs:
            raise RuntimeError(f"There is no main graph here: no graph has been selected. {_HINT}")
        return self._graphs[0].main_graph

    @property
    def ir(self) -> Ir:
        """The program that is being built."""
        if not self._graphs:
            raise RuntimeError(f"There is no program here: no graph has been selected. {_HINT}")
        return self._graphs[0].ir

    @property
    def in_sequence(self) -> bool | None:
        """Do ops run in the order in which they are made? They do, whatever this says."""
        return self._ordered

    @in_sequence.setter
    def in_sequence(self, enabled: bool | None) -> None:
        self._ordered = enabled

    def register_op_created_hook(self, fn: Callable[[Op], Any]) -> int:
        """Have `fn` called with each new op; the number takes it off again."""
        number = next(self._numbers)
        self._watchers[number] = fn
        return number

    def remove_op_created_hook(self, handle: int) -> None:
        """Call the function of this number no longer."""
        if self._watchers.pop(handle, None) is None:
            raise ValueError(f"No function that watches ops has the number {handle}: it was taken off, or never put on")

    def _op_created(self, op: Op) -> None:
        for watch in tuple(self._watchers.values()):  # one may take itself off
            watch(op)


_STATE = Context()


def get_current_context() -> Context:
    """The one context."""
    return _STATE


def get_current_graph() -> Graph:
    """The graph that new ops go to."""
    return _STATE.graph


def get_main_graph() -> Graph:
    """The main graph of the current program."""
    return _STATE.main_graph


def get_ir() -> Ir:
    """The current program."""
    return _STATE.ir


gcg = get_current_graph
gmg = get_main_graph
gir = get_ir


@contextmanager
def _setting(name: str, value: Any) -> Iterator[Any]:
    before = getattr(_STATE, name)
    setattr(_STATE, name, value)
    try:
        yield value
    finally:
        setattr(_STATE, name, before)


@contextmanager
def ipu(ipu: int) -> Iterator[int]:
    """Ops made inside are on this IPU."""
    with _setting("_ipu", ipu):
        yield ipu


@contextmanager
def in_sequence(mode: bool | Literal["pass"] = True) -> Iterator[bool | None]:
    """Ops made inside run in the order in which they are made. Here they always do."""
    if mode is None:
        raise TypeError('`in_sequence` takes True, False or "pass", not None.')
    with _setting("_ordered", None if mode == "pass" else mode) as chosen:
        yield chosen


@contextmanager
def io_tiles() -> Iterator[None]:
    """Ops made inside are on the tiles that are kept for I/O."""
    with _setting("_on_io_tiles", True):
        yield


@contextmanager
def name_scope(name: str) -> Iterator[list[str]]:
    """Tensors and ops made inside have this name in front of their own."""
    with _setting("_scopes", (*_STATE.name_scopes, name)):
        yield _STATE.name_scopes


@contextmanager
def debug_context_frame_offset(i: int) -> Iterator[int]:
    """For wrappers around ops. Lines are found without it: the first outside of popxl is the user's."""
    with _setting("_skipped_frames", _STATE._skipped_frames + i + 1) as offset:
        yield offset


@contextmanager
def _execution_context(execution_context: ExecutionContext) -> Iterator[ExecutionContext]:
    with _setting("_execution_context", execution_context):
        yield execution_context


def op_debug_context(name: Any) -> Any:
    """For functions that make ops: what they make has their caller's line."""

    def outer(func: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return func(*args, **kwargs)

        return wrapper

    return outer(name) if callable(name) else outer
