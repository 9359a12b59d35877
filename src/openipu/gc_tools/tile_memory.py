"""Memories of tiles, as arrays of this host.

In: how many tiles, how large, and bits that are stuck. Out: an object to write to and to read from. A stuck bit is how
a test is shown to find what it looks for.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class StuckBit:
    """A bit of one tile's memory that always reads as 1."""

    tile: int
    address: int  # bytes from the start of the tile's memory
    bit: int  # in its word


class TileMemories:
    """The memories of neighbouring tiles: one row of words each."""

    def __init__(self, tiles: int, bytes_per_tile: int, stuck: Sequence[StuckBit] = (), first_tile: int = 0) -> None:
        self.first_tile = first_tile
        self._words: Words = np.zeros((tiles, bytes_per_tile // WORD_BYTES), dtype=np.uint32)
        self._stuck = [bit for bit in stuck if first_tile <= bit.tile < first_tile + tiles]

    @property
    def shape(self) -> tuple[int, int]:
        return self._words.shape[0], self._words.shape[1]

    def write(self, values: Words | np.uint32) -> None:
        """The same value everywhere, or a word for each place."""
        self._words[...] = values

    def read(self) -> Words:
        """What lies there, seen through the stuck bits."""
        for bit in self._stuck:
            place = bit.tile - self.first_tile, bit.address // WORD_BYTES
            self._words[place] |= np.uint32(1 << bit.bit)
        return self._words


def parse_stuck_bit(text: str) -> StuckBit:
    """`TILE:ADDRESS:BIT`."""
    try:
        tile, address, bit = (int(part, 0) for part in text.split(":"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not TILE:ADDRESS:BIT, such as 3:0x400:7") from None
    if tile < 0 or address < 0 or not 0 <= bit < 8 * WORD_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r}: a bit is 0 to 31, tile and address are not negative")
    return StuckBit(tile, address, bit)
