"""A trace of the host by the original's names: processes, their threads, events inside events.

In: the path of a `.pvti` file that openipu wrote. Out: `Trace`. Times are microseconds.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from openipu.report.notebook import frame_page
from openipu.report.system import render_system_page
from openipu.trace.read import MOMENT, HostTrace, ProcessTrace, ThreadTrace, read_trace
from pva._lists import LazyList


def openTrace(path: str | Path) -> Trace:
    """Open the trace of one process, or of a directory with all processes of a run."""
    return Trace(read_trace(Path(path)))


class Event:
    """One thing that happened. A moment has the duration 0."""

    def __init__(self, thread: Thread, index: int) -> None:
        self._thread, self._index = thread, index

    @property
    def label(self) -> str:
        trace = self._thread._trace
        return str(trace.names[trace.label[self._index]])

    @property
    def channel(self) -> str:
        trace = self._thread._trace
        return str(trace.names[trace.channel[self._index]])

    @property
    def timestamp(self) -> float:
        """Since 1970."""
        return float(self._thread._trace.start_ns[self._index] / 1000)

    @property
    def duration(self) -> float:
        nanoseconds = int(self._thread._trace.duration_ns[self._index])
        return 0.0 if nanoseconds == MOMENT else nanoseconds / 1000

    def children(self) -> list[Event]:
        """The events right inside this one, in order."""
        return [Event(self._thread, index) for index in self._thread._children.get(self._index, ())]

    def __repr__(self) -> str:
        return f"Event({self.label!r}, {self.duration:.1f} us)"


class Thread:
    """One thread of a process."""

    def __init__(self, trace: ThreadTrace) -> None:
        self._trace = trace

    @property
    def tid(self) -> int:
        return self._trace.tid

    @property
    def name(self) -> str:
        return self._trace.name

    @cached_property
    def events(self) -> LazyList[Event]:
        """The outermost events, in order."""
        outer = self._children.get(-1, [])
        return LazyList(len(outer), lambda place: Event(self, outer[place]), keep=False)

    @cached_property
    def _children(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for index, parent in enumerate(self._trace.parents.tolist()):
            found.setdefault(parent, []).append(index)
        return found


class Process:
    """One process."""

    def __init__(self, trace: ProcessTrace) -> None:
        self._trace = trace
        self.threads = [Thread(thread) for thread in trace.threads]

    @property
    def pid(self) -> int:
        return self._trace.pid

    def thread(self, tid: int) -> Thread:
        for thread in self.threads:
            if thread.tid == tid:
                return thread
        raise IndexError(f"Process {self.pid} has no thread {tid}; it has {[thread.tid for thread in self.threads]}")


class Trace:
    """What one run did on the host."""

    def __init__(self, trace: HostTrace) -> None:
        self._trace = trace
        self.processes = [Process(process) for process in trace.processes]

    def _repr_html_(self) -> str:
        """The lanes of the system report, inline in a notebook."""
        return frame_page(render_system_page(self._trace), "Trace of the host")

    def process(self, pid: int) -> Process:
        for process in self.processes:
            if process.pid == pid:
                return process
        raise IndexError(f"The trace has no process {pid}; it has {[process.pid for process in self.processes]}")
