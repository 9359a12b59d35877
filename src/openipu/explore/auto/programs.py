"""Code of segments that share an IPU: what equal ops of different segments need is there once.

In: a plan in which each segment has an IPU of its own, and the tasks that it was made from. Out: a `ProgramTable`:
for any segments, the bytes of their code on the sampled tiles.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openipu.graph import Phase
from openipu.plan import MemoryCategory, Plan
from openipu.plan.lowering.transfers import COPY
from openipu.plan.types import StepCode
from openipu.plan.work import Task

Rows = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class ProgramTable:
    """Programs and vertex types: the bytes of each on the sampled tiles, and which segments have it."""

    sizes: Rows  # a row for each program, a column for each tile
    used: npt.NDArray[np.bool_]  # a row for each segment, a column for each program
    own: Rows  # what each segment has of its own: host exchange, copies between IPUs

    def find_equal(self) -> tuple[int, ...]:
        """For each segment the first one that has the same programs."""
        first: dict[bytes, int] = {}
        return tuple(first.setdefault(row.tobytes(), index) for index, row in enumerate(self.used))

    def sum_code(self, members: Iterable[int]) -> Rows:
        """Bytes of code of an IPU with these segments."""
        chosen = list(members)
        needed = self.used[chosen].any(axis=0)
        return np.asarray(self.sizes[needed].sum(axis=0) + self.own[chosen].sum(axis=0))


def list_programs(
    plan: Plan, tasks: Sequence[Task], kinds: Sequence[int], sample: npt.NDArray[np.int64]
) -> ProgramTable:
    """The programs of every segment. `kinds`: by segment, the one that was planned in its place."""
    tiles = plan.system.target.tiles
    numbers: dict[Hashable, int] = {}
    sizes: list[Rows] = []
    used: dict[int, set[int]] = {}
    seen: set[tuple[str, int, int]] = set()  # vertex types where they were met
    places: dict[int, int] = {}  # by op: its steps so far
    own_rows = np.zeros((len(kinds), len(sample)))

    def find(key: Hashable) -> int:
        if key not in numbers:
            numbers[key] = len(sizes)
            sizes.append(np.zeros(len(sample)))
        return numbers[key]

    for step in plan.steps:
        code = step.code
        if code is None or step.op is None:
            continue
        task = tasks[step.op]
        if task.site.op == COPY:  # between segments that may be on one IPU; those of the update are of single numbers
            if task.phase is Phase.UPDATE and step.ipu < len(kinds):
                own_rows[step.ipu] += code.control_bytes
            continue
        place = places[step.op] = places.get(step.op, -1) + 1
        own = place - (1 if task.moves else 0)  # bringing operands is a program of its own
        known = used.setdefault(step.ipu, set())
        where = (code.vertex, code.first_tile, step.tiles)
        if code.vertex:
            known.add(find(code.vertex))
            if where not in seen:
                seen.add(where)
                covered = (sample - code.first_tile) % tiles < step.tiles
                number = numbers[code.vertex]
                sizes[number] = np.maximum(sizes[number], covered * float(code.vertex_code_bytes))
        count = len(numbers)
        number = find((id(task.cost), len(task.moves) if own < 0 else 0, own))
        known.add(number)
        if number == count:  # met for the first time
            sizes[number] = _measure_program(code, (sample - code.first_tile) % tiles < step.tiles)
    for memory in plan.memory:
        if memory.ipu < len(kinds):
            own_rows[memory.ipu] += memory.categories[MemoryCategory.HOST_EXCHANGE_CODE][sample]
    table = np.zeros((len(kinds), len(sizes)), dtype=np.bool_)
    for ipu, found in used.items():
        if ipu < len(kinds):
            table[ipu, sorted(found)] = True
    chosen = list(kinds)
    return ProgramTable(np.stack(sizes) if sizes else np.zeros((0, len(sample))), table[chosen], own_rows[chosen])


def _measure_program(code: StepCode, covered: npt.NDArray[np.bool_]) -> Rows:
    """Vertex state and exchange code where the step runs, control code on every tile."""
    return np.asarray(covered * float(code.state_bytes + code.exchange_bytes) + code.control_bytes)
