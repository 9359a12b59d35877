"""The clock of a device: cycles of what ran, as a program can read them.

In: a sequence. Out: a tensor of two UNSIGNED_INT, the low and the high half of a number of cycles. They are the cycles
that the plan has for what ran: no time of this machine is in them.
"""

from __future__ import annotations

from collections.abc import Sequence as Listing
from typing import Any

from openipu.graph.mapped import UNSIGNED_INT
from poplar import program as programs
from poplar._graph import Graph
from poplar._tensor import Tensor, concat


def cycleCount(
    graph: Graph, prog: programs.Sequence, tile: int, syncType: str = programs.SyncType.INTERNAL, name: str = ""
) -> Tensor:
    """Count the cycles of a sequence. It is changed: a sync and a stamp come before it, and a stamp behind it."""
    before, found = make_stamps(graph, 2, tile, name or "cycleCount")
    first = [programs.Sync(syncType), programs.CycleStamp(before)]
    prog.programs[:] = [*first, *prog.programs, programs.CycleStamp(found, before)]
    return found


def cycleStamp(
    graph: Graph,
    prog: programs.Sequence,
    tiles: int | Listing[int],
    syncType: str = programs.SyncType.INTERNAL,
    name: str = "",
) -> Any:
    """Add a reading of the clock, from the load of the program on; one tensor for each tile if there is a list."""
    listed = [tiles] if isinstance(tiles, int) else list(tiles)
    prog.add(programs.Sync(syncType))
    made = [make_stamps(graph, 1, tile, name or "cycleStamp")[0] for tile in listed]
    for stamp in made:
        prog.add(programs.CycleStamp(stamp))
    return made[0] if isinstance(tiles, int) else made


def make_stamps(graph: Graph, count: int, tile: int, name: str) -> list[Tensor]:
    """Variables for stamps, on a tile."""
    made = [graph.addVariable(UNSIGNED_INT, [2], name) for _ in range(count)]
    graph.setTileMapping(concat(made), tile)
    return made
