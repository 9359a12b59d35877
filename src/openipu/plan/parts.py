"""Programs in which several IPUs hold equal parts, as a deep model with a layer on each does: each is planned once.

In: a program that is placed so, a system, options. Out: for one memory proportion after the other, a `Plan` of one IPU
of each kind. The program is lowered once: lowering knows no proportions. What is left out of such a plan is other IPUs'
work, which changes no lifetime of what stays; its timing and its fit are therefore of no use.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace

from openipu.graph import Program, RunOptions
from openipu.graph.collection import pause_collection
from openipu.machine import System
from openipu.plan.lowering.known import KnownProgram
from openipu.plan.lowering.lower import lower_program
from openipu.plan.planner import plan_workload
from openipu.plan.price import MEMORY_PROPORTION, SERIALIZATION
from openipu.plan.types import Plan
from openipu.plan.work import Storage, Task, Value, Workload


class PartPlanner:
    """Plans the different parts of one program."""

    @pause_collection()
    def __init__(self, program: Program, system: System, options: RunOptions, known: KnownProgram) -> None:
        self.system, self.options, self.known = system, options, known
        self._workload = lower_program(program, options, system, known)
        self.kinds = find_kinds(self._workload, known)  # by IPU: the first IPU whose part is equal
        self.tasks = self._workload.tasks  # of all IPUs, as they were lowered
        _leave_out(self._workload, set(self.kinds))
        self._costs = [task.cost for task in self._workload.tasks]
        self._reuses = [storage.reuses for storage in self._workload.storages]

    @property
    def planned_tasks(self) -> list[Task]:
        """The tasks of the last plan, by the numbers that its ops have."""
        return self._workload.tasks

    @pause_collection()
    def plan(self, proportion: float) -> Plan:
        """One IPU of each kind, with one available-memory proportion."""
        self._forget()
        options = replace(self.options, available_memory_proportion=proportion, memory_proportions=())
        return plan_workload(self._workload, self.system, options, self.known)

    def _forget(self) -> None:
        """As it was lowered: what passes for another proportion have found out is removed."""
        for task, cost in zip(self._workload.tasks, self._costs, strict=True):
            task.cost, task.moves = cost, ()
        for storage, reuses in zip(self._workload.storages, self._reuses, strict=True):
            storage.mapping = storage.layout = None
            storage.reuses = reuses
        for streams in (self._workload.streams_in, self._workload.streams_out, self._workload.reductions):
            streams.clear()


def find_kinds(workload: Workload, known: KnownProgram) -> tuple[int, ...]:
    """For each IPU the first one that runs the same calls on storages that live as long, in the same order."""
    ipus = [task.place.ipu for task in workload.tasks]
    numbers: list[int] = []  # of each task among those of its IPU
    counts: dict[int, int] = defaultdict(int)
    for ipu in ipus:
        numbers.append(counts[ipu])
        counts[ipu] += 1
    seen: dict[int, dict[Hashable, int]] = defaultdict(dict)  # by IPU: storages and views as they are met
    parts: dict[int, list[Hashable]] = defaultdict(list)

    def describe(value: Value, ipu: int) -> Hashable:
        storage = value.storage
        last = storage.last_reader
        ends: Hashable = None
        if last >= 0:
            ends = numbers[last] if ipus[last] == ipu else workload.tasks[last].phase
        names = seen[ipu]
        return (
            names.setdefault(id(storage), len(names)),
            storage.kind,
            storage.operand.shape,
            storage.operand.dtype,
            storage.residence.off_chip,
            storage.residence.shards,
            storage.ipu == ipu,
            storage.streamed_out,
            ends,
            names.setdefault(value.view, len(names)) if value.view else -1,  # what matters is which ones are equal
        )

    for task, ipu in zip(workload.tasks, ipus, strict=True):
        marks = task.note.attributes
        parts[ipu].append(
            (
                task.phase,
                known.write_out(task.site),
                str(marks.get(MEMORY_PROPORTION)),
                str(marks.get(SERIALIZATION)),
                *(describe(value, ipu) for value in task.reads),
                *(describe(value, ipu) for value in task.writes),
            )
        )
    first: dict[Hashable, int] = {}
    return tuple(first.setdefault(tuple(parts[ipu]), ipu) for ipu in range(workload.ipus))


def _leave_out(workload: Workload, kept: set[int]) -> None:
    """Keep the tasks and storages of some IPUs, and of those whose storages they overwrite."""
    while more := {storage.root.ipu for storage in workload.storages if storage.ipu in kept} - kept:
        kept |= more
    tasks = [task for task in workload.tasks if task.place.ipu in kept]
    before = [task.index for task in tasks]
    workload.tasks = [replace(task, index=number) for number, task in enumerate(tasks)]
    workload.storages = [storage for storage in workload.storages if storage.ipu in kept]
    for storage in workload.storages:
        _renumber(storage, before)


def _renumber(storage: Storage, before: Sequence[int]) -> None:
    """What another IPU read last was read by the time of the task that is before that here."""
    if storage.writer is not None:
        storage.writer = max(0, bisect_right(before, storage.writer) - 1)
    if storage.last_reader >= 0:
        storage.last_reader = bisect_right(before, storage.last_reader) - 1
