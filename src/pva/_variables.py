"""Variables: as the program knows them, and as they lie on tiles.

In: a profile's variables. Out: `UnloweredVariable`s (a name and a size), and `LoweredVariables`, where a variable is
one piece on each tile that holds some of it. Pieces are columns of numbers; an object is made for the one asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from openipu.report.profile import Integers, Profile
from pva._lists import LazyList


@dataclass(frozen=True)
class UnloweredVariable:
    """A tensor of the program, or what a program needs besides tensors."""

    name: str
    size: int  # bytes of all tiles of a replica

    @property
    def bytes(self) -> int:
        return self.size


@dataclass(frozen=True)
class Interval:
    """Program steps from `start` to before `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class EquivalenceClass:
    """Variables that are live in the same steps."""

    id: int
    steps: tuple[Interval, ...]


@dataclass(frozen=True)
class BriefVariable:
    """One piece, by numbers alone."""

    id: int
    bytes: int
    tileId: int
    equivalenceClass: EquivalenceClass


@dataclass(frozen=True)
class LoweredVariable:
    """One piece, with its name."""

    _id: int
    name: str
    bytes: int
    tileId: int
    unloweredVar: UnloweredVariable
    hasUnloweredVar: bool = True


class LoweredVariables:
    """All pieces of all variables of one replica, variable by variable."""

    def __init__(self, profile: Profile, variables: Sequence[UnloweredVariable]) -> None:
        self._profile, self._variables = profile, variables
        self._tiles = profile.system.target.tiles
        lives = [(record.first_step, record.last_step + 1) for record in profile.variables]
        numbers = {life: number for number, life in enumerate(dict.fromkeys(lives))}
        self._classes = [EquivalenceClass(number, (Interval(*life),)) for life, number in numbers.items()]
        self._class_of = [numbers[life] for life in lives]

    @cached_property
    def _pieces(self) -> tuple[Integers, Integers, Integers]:
        """(variable, tile, bytes) of each piece."""
        owners, tiles, sizes = [], [], []
        for record in self._profile.variables:
            held = record.bytes_by_tile(self._tiles)
            where = np.nonzero(held)[0]
            owners.append(np.full(len(where), record.index, dtype=np.int64))
            tiles.append(where + record.ipu * self._tiles)
            sizes.append(held[where])
        empty = np.zeros(0, dtype=np.int64)
        return tuple(np.concatenate([empty, *parts]) for parts in (owners, tiles, sizes))  # type: ignore[return-value]

    @cached_property
    def _first_piece(self) -> list[int]:
        counts = np.bincount(self._pieces[0], minlength=len(self._profile.variables))
        return [0, *accumulate(counts.tolist())]

    @property
    def allBriefVars(self) -> LazyList[BriefVariable]:
        owners, tiles, sizes = self._pieces

        def make(index: int) -> BriefVariable:
            lifetime = self._classes[self._class_of[int(owners[index])]]
            return BriefVariable(index, int(sizes[index]), int(tiles[index]), lifetime)

        return LazyList(len(owners), make, keep=False)

    def forTile(self, tile: int) -> list[LoweredVariable]:
        """The pieces on one tile of a replica."""
        return [self.make(int(index)) for index in np.nonzero(self._pieces[1] == tile)[0]]

    def of_variable(self, index: int) -> list[LoweredVariable]:
        """The pieces of one variable."""
        return [self.make(piece) for piece in range(self._first_piece[index], self._first_piece[index + 1])]

    def make(self, piece: int) -> LoweredVariable:
        """One piece by its number."""
        owners, tiles, sizes = self._pieces
        variable = self._variables[int(owners[piece])]
        return LoweredVariable(piece, variable.name, int(sizes[piece]), int(tiles[piece]), variable)


def list_unlowered(profile: Profile) -> list[UnloweredVariable]:
    """The tensors of a program, in the profile's order."""
    return [UnloweredVariable(record.name, record.total_bytes) for record in profile.variables]
