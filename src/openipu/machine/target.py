"""The machine as data: one chip (`Target`), one system of chips (`System`), and where each figure is from.

In: numbers with a source, from the catalog or from a user's own TOML file or dataclass.
Out: frozen dataclasses that the op table and the planner read. Nothing here computes a cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Provenance(StrEnum):
    """How well a figure is known. Totals that rest on `GUESSED` figures are reported as such."""

    PUBLISHED = "published"  # a vendor document, a paper or a measurement states it
    DERIVED = "derived"  # arithmetic on published figures
    GUESSED = "guessed"  # our judgement, no source
    USER = "user"  # from a user's own target file


@dataclass(frozen=True, slots=True)
class Source:
    """Where one figure is from."""

    provenance: Provenance
    reference: str


@dataclass(frozen=True, slots=True)
class Target:
    """One IPU chip. Every figure has its unit in its name and its source in `sources`."""

    name: str
    architecture: str  # "ipu1" (Mk1), "ipu2" (Mk2, Bow), "ipu21" (C600)
    tiles: int
    workers_per_tile: int
    clock_hz: float
    tile_memory_bytes: int
    tile_interleaved_bytes: int  # the region that allows 128-bit loads; the rest may hold code
    tile_reserved_bytes: int  # stacks and the loader's own words: never available to a program
    load_bytes_per_cycle: int
    store_bytes_per_cycle: int
    exchange_bytes_per_cycle: float  # received by one tile
    exchange_sharing_tiles: int  # neighbours on one bus: same data reaches all of them at once
    amp_units_half: int  # convolution units, half operands, float partials
    amp_units_half_half_partials: int
    amp_units_float: int
    amp_coefficient_load_bytes_per_cycle: int
    vector_bytes: int  # width of the plain (non-AMP) datapath
    phase_launch_cycles: float  # sync plus launch of one exchange phase
    compute_scale: float  # measured cycles over formula cycles of this chip's software era
    sources: Mapping[str, Source] = field(default_factory=dict)

    @property
    def memory_bytes(self) -> int:
        """All tile memory of one IPU."""
        return self.tiles * self.tile_memory_bytes

    @property
    def usable_tile_bytes(self) -> int:
        """What a program can have of one tile."""
        return self.tile_memory_bytes - self.tile_reserved_bytes

    def amp_flops_per_cycle_per_tile(self, element_bytes: int) -> int:
        """Peak multiply-accumulate rate of one tile, counted as two operations each."""
        if element_bytes >= 4:  # 8 input channels in 8 cycles a row, for each unit
            return self.amp_units_float * 8 // 8 * 2
        return self.amp_units_half_half_partials * 16 // 4 * 2  # 16 input channels in 4 cycles

    def peak_flops(self, element_bytes: int) -> float:
        """Peak operations per second of the whole chip for operands of this size."""
        return self.amp_flops_per_cycle_per_tile(element_bytes) * self.tiles * self.clock_hz

    def seconds(self, cycles: float) -> float:
        return cycles / self.clock_hz


@dataclass(frozen=True, slots=True)
class System:
    """IPUs on boards, with the links between them and to the host."""

    name: str
    target: Target
    ipus: int
    ipus_per_board: int
    ipu_link_bytes_per_second: float  # between two neighbours, one way
    gateway_link_bytes_per_second: float  # between racks, one way, a board; 0 where there is none
    host_bytes_per_second: float  # host to the board, the share of one IPU, one way
    stream_bytes_per_second: float  # what was prefetched on the board to one IPU, one way
    streaming_memory_bytes: int  # off-chip memory, a board
    streaming_bytes_per_second: float  # off-chip memory to one IPU, one way
    description: str = ""
    sources: Mapping[str, Source] = field(default_factory=dict)

    @property
    def boards(self) -> int:
        return -(-self.ipus // self.ipus_per_board)
