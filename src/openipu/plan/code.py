"""Pass "code": always-live memory that is not data: vertex code, vertex state, exchange code, control code.

One copy of a vertex type's code lies on each tile that uses it. Equal ops share their vertex state, exchange code and
control code, because repeated parts of a graph are outlined into one callable part.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openipu.machine import System
from openipu.ops.cost import CostStep, StepKind
from openipu.ops.vertex_code import (
    estimate_control_code_bytes,
    estimate_exchange_code_bytes,
    estimate_step_state_bytes,
    estimate_vertex_code_bytes,
)
from openipu.plan.schedule import list_task_steps
from openipu.plan.types import MemoryCategory, TileBytes
from openipu.plan.work import Task, Workload


def measure_code(workload: Workload, system: System, ipu: int) -> Mapping[MemoryCategory, TileBytes]:
    """Bytes on each tile of one IPU by category."""
    tiles = system.target.tiles
    found = {category: np.zeros(tiles, dtype=np.int64) for category in MemoryCategory}
    users: dict[str, TileBytes] = {}  # vertex type -> 1 on each tile that runs it
    seen: set[tuple[int, int]] = set()
    for task in workload.tasks:
        if task.place.ipu != ipu:
            continue
        key = (id(task.cost), len(task.moves))
        outlined = key in seen
        seen.add(key)
        first = _find_first_tile(task)
        for step in list_task_steps(task):
            where = (first + np.arange(min(step.tiles, tiles))) % tiles
            if step.vertex:
                users.setdefault(step.vertex, np.zeros(tiles, dtype=np.int64))[where] = 1
            if outlined:
                continue
            found[MemoryCategory.VERTEX_STATE][where] += estimate_step_state_bytes(step)
            found[MemoryCategory.EXCHANGE_CODE][where] += estimate_exchange_code_bytes(step)
            found[MemoryCategory.CONTROL_CODE] += estimate_control_code_bytes(step)
    for vertex, present in users.items():
        found[MemoryCategory.VERTEX_CODE] += present * estimate_vertex_code_bytes(vertex)
    for stream in (*workload.streams_in, *workload.streams_out):
        if stream.place.ipu != ipu:
            continue
        packets = CostStep(StepKind.HOST, stream.name, 0.0, tiles, stream.moved_bytes)
        found[MemoryCategory.HOST_EXCHANGE_CODE] += estimate_control_code_bytes(packets)
    return found


def _find_first_tile(task: Task) -> int:
    for value in task.writes:
        mapping = value.storage.root.mapping
        if mapping is not None:
            return mapping.first_tile
    return 0
