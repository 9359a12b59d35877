"""When the variables of a mapped program are live.

In: leaves with what they touch, the steps of each, loops. Out: for each variable its first and last step, or that it is
always live: the host can see it, several programs share it, or something reads it before it is written as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openipu.graph.mapped.program import MappedProgram, MappedVariable
from openipu.graph.mapped.views import Ints
from openipu.plan.mapped.touch import Touched, touch_views
from openipu.plan.mapped.traffic import Rows, split_by_home
from openipu.plan.mapped.walk import Walk
from openipu.plan.types import Spread


@dataclass(frozen=True, slots=True)
class Life:
    """Of one variable, in leaves."""

    first: int
    last: int
    always: bool
    writer: int  # the first leaf that writes it; -1: none


def find_lives(program: MappedProgram, walk: Walk, touched: Sequence[Touched]) -> dict[int, Life]:
    """Lifetimes by the number of the variable; those that nobody touches are not there."""
    seen_by_host: set[int] = set()
    for views in (program.host_reads, program.host_writes):
        seen_by_host |= touch_views(program, list(views.values()), []).reads
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    writer: dict[int, int] = {}
    whole: dict[int, bool] = {}
    for leaf, touch in enumerate(touched):
        for number in touch.reads | set(touch.writes):
            if number not in first:
                first[number] = leaf
                elements = program.variables[number].elements
                whole[number] = number not in touch.reads and touch.writes.get(number, 0) >= elements
            last[number] = leaf
        for number in touch.writes:
            writer.setdefault(number, leaf)
    program_of = np.zeros(max(1, len(touched)), dtype=np.int64)
    for place, (begin, end) in enumerate(walk.programs):
        program_of[begin:end] = place
    lives: dict[int, Life] = {}
    final = max(0, len(touched) - 1)
    for number in sorted(set(first) | seen_by_host):
        low, high = first.get(number, 0), last.get(number, final)
        shared = bool(program_of[low] != program_of[high])
        always = (
            number in seen_by_host
            or shared
            or not whole.get(number, False)
            or program.variables[number].value is not None
        )
        for begin, end in walk.loops:
            if begin <= high and low < end and not (begin <= low and high < end):
                low, high = min(low, begin), max(high, end - 1)
        lives[number] = Life(low, high, always, writer.get(number, -1))
    return lives


def spread_variable(program: MappedProgram, variable: MappedVariable) -> list[tuple[int, Spread]]:
    """Bytes by tile, for each IPU that holds any."""
    size = variable.type.bytes
    start = np.array([variable.start], dtype=np.int64)
    rows = Rows(size, np.zeros(1, dtype=np.int64), start, start + variable.elements)
    cut, homes = split_by_home(rows, program.tile_maps[size])
    known = homes >= 0
    held = np.bincount(homes[known], (cut.ends - cut.starts)[known] * size, program.tiles).astype(np.int64)
    return split_by_ipu(program, held)


def split_by_ipu(program: MappedProgram, held: Ints) -> list[tuple[int, Spread]]:
    found = []
    width = program.tiles_per_ipu
    for ipu in range(max(1, program.tiles // width)):
        part = held[ipu * width : (ipu + 1) * width]
        places = np.flatnonzero(part)
        if len(places):
            found.append((ipu, Spread(places, part[places])))
    return found
