"""The memory of one replica: one flat array for each element size, and doors to the views of it.

In: the sizes of the address spaces. Out: `Port`s. A strided view is an array over the same memory; any other is
gathered and scattered by its addresses. Memory stays where it is, so doors are made once, when a program is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from openipu.errors import MappedRunError
from openipu.graph.mapped.codelets import Array
from openipu.graph.mapped.elements import ElementType
from openipu.graph.mapped.program import Edges, MappedProgram
from openipu.graph.mapped.views import Ints, View
from openipu.run.mapped.shared import find_shared_memory


class Memory:
    """Arrays by element size; `written` says which elements were ever written, if somebody wants to know."""

    def __init__(self, program: MappedProgram, *, watched: bool = False) -> None:
        self._program = program
        # Compiled codelets run in processes of their own: they see memory that is shared with them.
        shared = any(getattr(codelet, "shares_memory", False) for codelet in program.codelets)
        allocate = find_shared_memory().allocate if shared else np.zeros
        self._spaces: Mapping[int, npt.NDArray[Any]] = {
            size: allocate((max(1, elements),), np.dtype(f"u{size}")) for size, elements in program.spaces.items()
        }
        self._written = {size: np.zeros(len(space), dtype=bool) for size, space in self._spaces.items()}
        self.watched = watched
        if not watched:
            self._written = {}
        for variable in program.variables:
            if variable.value is not None:
                self.space(variable.type)[variable.start : variable.start + variable.elements] = variable.value
                if watched:
                    self._written[variable.type.bytes][variable.start : variable.start + variable.elements] = True

    def space(self, element: ElementType) -> Array:
        """All elements of that size, read as this type."""
        return self._spaces[element.bytes].view(element.dtype)

    def open(self, view: View, what: str = "") -> Port:
        """A door to a view. `what` says who reads it, for messages about memory that was never written."""
        return WatchedPort(self, view, what) if self.watched else Port(self, view)

    def strided(self, element: ElementType, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        """An array over a part of the memory."""
        size = element.bytes
        return np.ndarray(
            shape, element.dtype, self._spaces[size], offset * size, tuple(stride * size for stride in strides)
        )

    def mark(self, element: ElementType, addresses: Ints) -> None:
        if self.watched:
            self._written[element.bytes][addresses] = True

    def unmark(self, element: ElementType, addresses: Ints) -> None:
        if self.watched:
            self._written[element.bytes][addresses] = False

    def check(self, element: ElementType, addresses: Ints, what: str) -> None:
        """Refuse to read what nobody has written."""
        known = self._written[element.bytes][addresses]
        if not known.all():
            first = int(addresses.reshape(-1)[np.flatnonzero(~known.reshape(-1))[0]])
            count = int(np.count_nonzero(~known))
            raise MappedRunError(
                f"{what} reads {self._program.name_element(element, first)}"
                f"{f' and {count - 1} more elements' if count > 1 else ''}, which nothing has written yet. Write it "
                "before (Copy, popops.zero, a stream, Engine.writeTensor), or make it a constant."
            )


class Port:
    """One view of one memory."""

    __slots__ = ("_addresses", "_array", "_space", "shape")

    def __init__(self, memory: Memory, view: View) -> None:
        self.shape = view.shape
        self._array: Array | None = None
        self._space: Array = memory.space(view.type)
        self._addresses: Ints | None = view.addresses
        if view.addresses is None:
            if view.elements:
                self._array = memory.strided(view.type, view.offset, view.shape, view.strides)
            else:
                self._array = np.empty(view.shape, dtype=view.type.dtype)

    def get(self) -> Array:
        """The elements; for strided views the memory itself, which later writes will change."""
        return self._array if self._array is not None else self._space[self._addresses]

    def put(self, values: Array) -> None:
        # What is still to be read must not change meanwhile; numpy sees to that for some overlaps, not for all.
        target = self._space if self._array is None else self._array
        if np.may_share_memory(values, target):
            values = values.copy()
        if self._array is not None:
            np.copyto(self._array, values, casting="unsafe")
        else:
            self._space[self._addresses] = values

    @property
    def direct(self) -> bool:
        """Does `get` return the memory itself?"""
        return self._array is not None


class WatchedPort(Port):
    """Refuses to read what was never written."""

    __slots__ = ("_element", "_every", "_memory", "_what")

    def __init__(self, memory: Memory, view: View, what: str) -> None:
        super().__init__(memory, view)
        self._memory, self._element, self._what = memory, view.type, what
        self._every = view.list_addresses()

    def get(self) -> Array:
        if self._what:
            self._memory.check(self._element, self._every, self._what)
        return super().get()

    def put(self, values: Array) -> None:
        super().put(values)
        self._memory.mark(self._element, self._every)


class EdgePort:
    """One field of all vertices of a batch. Rows that lie evenly are an array over the memory itself."""

    __slots__ = ("_addresses", "_element", "_every", "_memory", "_scalar", "_starts", "_windows", "array")

    def __init__(self, memory: Memory, edges: Edges, *, direct: bool) -> None:
        self._scalar = edges.scalar
        self._memory = memory
        self._element = edges.type
        self._every: Ints | None = edges.list_addresses() if memory.watched else None
        self.array: Array | None = None  # over the memory itself
        self._addresses = edges.addresses
        self._starts = edges.starts
        self._windows: Array | None = None
        if edges.length == 0:
            count = len(edges.starts) if edges.starts is not None else len(edges.addresses or ())
            self.array = np.empty((count, 0), dtype=edges.type.dtype)
        elif edges.starts is not None:
            step = _find_step(edges.starts)
            if direct and step is not None:
                rows = memory.strided(
                    edges.type, int(edges.starts[0]), (len(edges.starts), edges.length), (step, edges.stride)
                )
                self.array = rows[:, 0] if edges.scalar else rows
            else:
                self._open_windows(memory, edges)

    def _open_windows(self, memory: Memory, edges: Edges) -> None:
        """Every row that starts somewhere, as one overlapping array: taking rows of it copies whole rows."""
        space = memory.space(edges.type)
        span = (edges.length - 1) * abs(edges.stride) + 1
        first = (edges.length - 1) * -edges.stride if edges.stride < 0 else 0
        places = len(space) - span + 1
        self._windows = memory.strided(edges.type, first, (places, edges.length), (1, edges.stride))
        if edges.scalar:
            self._windows = self._windows[:, 0]
        assert edges.starts is not None
        self._starts = edges.starts - first

    def get(self, what: str = "") -> Array:
        if self._every is not None and what:
            self._memory.check(self._element, self._every, what)
        if self.array is not None:
            return self.array
        if self._windows is not None:
            return self._windows[self._starts]
        found = self._memory.space(self._element)[self._addresses]
        return found[:, 0] if self._scalar else found

    def put(self, values: Array) -> None:
        """Write a gathered array back; nothing to do where it was the memory itself."""
        if self._every is not None:
            self._memory.mark(self._element, self._every)
        if self.array is not None:
            return
        if self._windows is not None:
            self._windows[self._starts] = values
            return
        self._memory.space(self._element)[self._addresses] = values[:, None] if self._scalar else values


def _find_step(starts: Ints) -> int | None:
    """The distance of rows that lie evenly."""
    if len(starts) == 1:
        return 1
    step = int(starts[1] - starts[0])
    return step if bool((np.diff(starts) == step).all()) else None
