"""What is live at each program step, for one replica.

In: a profile. Out: `LivenessStep`s. The always-live list has what a program needs besides tensors too, as
pseudo-variables with the names of their categories.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from openipu.report.profile import Integers, Profile
from pva._programs import Program
from pva._variables import UnloweredVariable


@dataclass(frozen=True, eq=False)
class LiveMemory:
    """Bytes, and on request the variables that they are made of, largest first."""

    bytes: int
    _list: Callable[[], list[UnloweredVariable]]

    @cached_property
    def variables(self) -> list[UnloweredVariable]:
        return sorted(self._list(), key=lambda variable: -variable.size)


class Lifetimes:
    """Variables as columns, so that a step's are found by one comparison."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.tiles = profile.system.target.tiles
        records = profile.variables
        self.first: Integers = np.array([record.first_step for record in records], dtype=np.int64)
        self.last: Integers = np.array([record.last_step for record in records], dtype=np.int64)
        self.ipu: Integers = np.array([record.ipu for record in records], dtype=np.int64)
        self.always = np.array([record.always_live for record in records], dtype=bool)

    def list_live(self, step: int, ipu: int | None = None) -> list[int]:
        """Variables that live at a step and not always, of one IPU or of all."""
        here = ~self.always & (self.first <= step) & (self.last >= step)
        if ipu is not None:
            here &= self.ipu == ipu
        found: list[int] = here.nonzero()[0].tolist()
        return found

    def list_always(self, tile: int | None = None) -> list[UnloweredVariable]:
        """Always-live variables, and what is kept besides, of a whole replica or of one of its tiles."""
        profile = self.profile
        found = [
            UnloweredVariable(record.name, self._measure(record.index, tile))
            for record in profile.variables
            if record.always_live and (tile is None or record.ipu == tile // self.tiles)
        ]
        for category in profile.memory[0].categories:
            if tile is None:
                size = sum(int(memory.categories[category].sum()) for memory in profile.memory)
            else:
                size = int(profile.memory[tile // self.tiles].categories[category][tile % self.tiles])
            found.append(UnloweredVariable(category, size))
        return sorted((variable for variable in found if variable.size), key=lambda variable: -variable.size)

    def make_variables(self, indices: list[int], tile: int | None = None) -> list[UnloweredVariable]:
        """Variables with their size, in all or on one tile, where they have any."""
        made = [UnloweredVariable(self.profile.variables[index].name, self._measure(index, tile)) for index in indices]
        return [variable for variable in made if variable.size]

    def _measure(self, index: int, tile: int | None) -> int:
        record = self.profile.variables[index]
        if tile is None:
            return record.total_bytes
        return record.bytes_on_tile(tile % self.tiles, self.tiles)


@dataclass(frozen=True, eq=False)
class LivenessStep:
    """One step of the program."""

    index: int
    program: Program
    _lifetimes: Lifetimes

    @property
    def notAlwaysLiveMemory(self) -> LiveMemory:
        """Of a whole replica."""
        total = sum(int(memory.live_by_step[self.index]) for memory in self._lifetimes.profile.memory)
        return LiveMemory(total, lambda: self._lifetimes.make_variables(self._lifetimes.list_live(self.index)))

    def notAlwaysLiveMemoryForIpu(self, ipu: int) -> LiveMemory:
        """Of one IPU of a replica."""
        total = int(self._lifetimes.profile.memory[ipu].live_by_step[self.index])
        return LiveMemory(total, lambda: self._lifetimes.make_variables(self._lifetimes.list_live(self.index, ipu)))

    def notAlwaysLiveMemoryForTile(self, tile: int) -> LiveMemory:
        """Of one tile of a replica."""
        lifetimes = self._lifetimes
        found = lifetimes.make_variables(lifetimes.list_live(self.index, tile // lifetimes.tiles), tile)
        return LiveMemory(sum(variable.size for variable in found), lambda: found)
