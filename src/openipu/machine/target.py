"""The machine as data: one chip (`Target`), one system of chips (`System`), and where each figure is from.

In: numbers with a source, from the catalog or from a user's own TOML file or dataclass.
Out: frozen dataclasses that the op table and the planner read. Nothing here computes a cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from openipu.machine.bounds import Amount, Ipus, Rate, Share, Size, Some, Tiles, Word


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
    tiles: Tiles
    workers_per_tile: Some
    clock_hz: Rate
    tile_memory_bytes: Some
    tile_interleaved_bytes: Size  # the region that allows 128-bit loads; the rest may hold code
    tile_reserved_bytes: Size  # stacks and the loader's own words: never available to a program
    load_bytes_per_cycle: Some
    store_bytes_per_cycle: Some
    exchange_bytes_per_cycle: Rate  # received by one tile
    exchange_sharing_tiles: Some  # neighbours on one bus: same data reaches all of them at once
    amp_units_half: Some  # convolution units, half operands, float partials
    amp_units_half_half_partials: Some
    amp_units_float: Some
    amp_coefficient_load_bytes_per_cycle: Some
    vector_bytes: Word  # width of the plain (non-AMP) datapath
    phase_launch_cycles: Amount  # sync plus launch of one exchange phase
    compute_scale: Rate  # measured cycles over formula cycles of this chip's software era
    tile_gap_bytes: Size = 0  # lost between variables and to code that is not counted; never available either
    few_channel_scale: Rate = 1.0  # the same of convolutions over images of fewer than 8 channels, on top of that
    sync_cycles: Amount = 126.0  # all tiles of one IPU agree that a phase is over; a part of `phase_launch_cycles`
    vertex_call_cycles: Amount = 0.0  # measured over formula: what starting a vertex takes beyond its own estimate
    reduction_vector_cycles: Rate = 1.0  # one worker, one vector added to a running sum
    island_tiles: Some = 4  # tiles that share an entry to the exchange
    tile_columns: Some = 16  # columns of islands on the chip
    exchange_latency_cycles: Amount = 59.0  # one word to the nearest tile, without the sync
    exchange_island_cycles: Amount = 2.0  # further for each island along a column
    exchange_column_cycles: Amount = 4.0  # further for each column
    sources: Mapping[str, Source] = field(default_factory=dict)

    @property
    def islands_per_column(self) -> int:
        return max(1, -(-self.tiles // (self.island_tiles * self.tile_columns)))

    @property
    def column_latency_cycles(self) -> float:
        """One word to the farthest tile of the same column, without the sync."""
        return self.exchange_latency_cycles + self.exchange_island_cycles * (self.islands_per_column - 1)

    @property
    def farthest_latency_cycles(self) -> float:
        """One word across the chip, without the sync."""
        return self.column_latency_cycles + self.exchange_column_cycles * (self.tile_columns - 1)

    @property
    def mean_latency_cycles(self) -> float:
        """One word to any tile: a third of the way on average, along the column and across."""
        islands, columns = (self.islands_per_column - 1) / 3, (self.tile_columns - 1) / 3
        way = self.exchange_island_cycles * islands + self.exchange_column_cycles * columns
        return self.exchange_latency_cycles + way

    @property
    def memory_bytes(self) -> int:
        """All tile memory of one IPU."""
        return self.tiles * self.tile_memory_bytes

    @property
    def usable_tile_bytes(self) -> int:
        """What a program can have of one tile."""
        return self.tile_memory_bytes - self.tile_reserved_bytes - self.tile_gap_bytes

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
    ipus: Ipus
    ipus_per_board: Ipus
    ipu_link_bytes_per_second: Amount  # between two neighbours, one way
    gateway_link_bytes_per_second: Amount  # between racks, one way, a board; 0 where there is none
    host_bytes_per_second: Rate  # host to the board, the share of one IPU, one way
    stream_bytes_per_second: Rate  # what was prefetched on the board to one IPU, one way
    streaming_memory_bytes: Size  # off-chip memory, a board
    streaming_bytes_per_second: Amount  # off-chip memory to one IPU, one way
    off_board_link_bytes_per_second: Amount = 0.0  # between neighbours on two boards, one way
    ipu_link_efficiency: Share = 0.85  # payload over payload and framing
    ipu_link_latency_seconds: Amount = 0.285e-6  # a message to another IPU, beside the on-chip way and the hops
    ipu_link_hop_seconds: Amount = 0.165e-6  # further for each IPU on the way, the last included
    ipu_link_packet_bytes: Some = 100  # what the smallest message takes of a link
    host_latency_seconds: Amount = 8.8e-6  # the smallest transfer between host and IPU
    board_host_bytes_per_second: Amount = (
        0.0  # host to one board, one way, all its IPUs together; 0: no limit but theirs
    )
    description: str = ""
    sources: Mapping[str, Source] = field(default_factory=dict)

    @property
    def boards(self) -> int:
        return -(-self.ipus // self.ipus_per_board)
