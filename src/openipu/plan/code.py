"""Pass "code": always-live memory that is not data: vertex code, vertex state, exchange code, control code.

In: the steps of a schedule, each with what it keeps on a tile. Out: bytes on each tile by category. One copy of a
vertex type's code lies on each tile that uses it. What equal ops share (see `StepCode.program`) is counted once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openipu.machine import System
from openipu.ops.cost import CostStep, StepKind
from openipu.ops.vertex_code import estimate_control_code_bytes
from openipu.plan.types import MemoryCategory, PlannedStep, TileBytes
from openipu.plan.work import Workload


def measure_code(
    workload: Workload, steps: Sequence[PlannedStep], system: System, ipu: int
) -> Mapping[MemoryCategory, TileBytes]:
    """Bytes on each tile of one IPU by category. `steps` are those of this IPU."""
    tiles = system.target.tiles
    found = {category: np.zeros(tiles, dtype=np.int64) for category in MemoryCategory}
    vertex_code: dict[str, TileBytes] = {}  # vertex type -> its code, on each tile that runs it
    seen: set[int] = set()
    covered: set[tuple[str, int, int]] = set()  # vertex type, first tile, tiles
    for step in steps:
        code = step.code
        if code is None:
            continue
        place = (code.vertex, code.first_tile, step.tiles)
        adds_vertex = bool(code.vertex) and place not in covered
        if not adds_vertex and code.program in seen:
            continue
        where = (code.first_tile + np.arange(min(step.tiles, tiles))) % tiles
        if adds_vertex:
            covered.add(place)
            vertex_code.setdefault(code.vertex, np.zeros(tiles, dtype=np.int64))[where] = code.vertex_code_bytes
        if code.program in seen:
            continue
        seen.add(code.program)
        found[MemoryCategory.VERTEX_STATE][where] += code.state_bytes
        found[MemoryCategory.EXCHANGE_CODE][where] += code.exchange_bytes
        found[MemoryCategory.CONTROL_CODE] += code.control_bytes
    for held in vertex_code.values():
        found[MemoryCategory.VERTEX_CODE] += held
    for stream in (*workload.streams_in, *workload.streams_out):
        if stream.place.ipu != ipu:
            continue
        packets = CostStep(StepKind.HOST, stream.name, 0.0, tiles, stream.moved_bytes)
        found[MemoryCategory.HOST_EXCHANGE_CODE] += estimate_control_code_bytes(packets)
    return found
