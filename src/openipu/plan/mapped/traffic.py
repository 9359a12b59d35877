"""Which bytes have to travel between tiles: exactly, from where elements lie and who needs them.

In: intervals of addresses, each with the tile that reads (or writes) it, and the tile of every element. Out: bytes that
each tile receives and sends. An element that several vertices of a tile read arrives there once; one that several tiles
read leaves its tile once, because the exchange reaches them all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openipu.graph.mapped.program import Edges, MappedProgram, TileMap
from openipu.graph.mapped.views import Ints, View


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Intervals of one address space: `starts[i]` to `ends[i]` on behalf of tile `tiles[i]`."""

    size: int  # bytes of an element
    tiles: Ints
    starts: Ints
    ends: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Bytes by tile of one exchange."""

    received: Ints
    sent: Ints
    across: int  # bytes that go from one IPU to another
    pieces: int  # incoming intervals of the tile that has most

    @property
    def moved(self) -> int:
        return int(self.received.sum())


def list_edge_rows(edges: Edges, tiles: Ints) -> Rows:
    """What the vertices of a batch touch by one field."""
    size = edges.type.bytes
    if edges.length == 0:
        nothing = np.zeros(0, dtype=np.int64)
        return Rows(size, nothing, nothing, nothing)
    if edges.starts is not None and (edges.stride == 1 or edges.length == 1):
        return Rows(size, tiles, edges.starts, edges.starts + edges.length)
    addresses = edges.list_addresses()
    flat = addresses.reshape(-1)
    return Rows(size, np.repeat(tiles, addresses.shape[1]), flat, flat + 1)


def merge_rows(rows: Rows) -> Rows:
    """The union of each tile's intervals."""
    if len(rows.starts) < 2:
        return rows
    span = int(rows.ends.max()) + 1
    base = rows.tiles * span
    low, high = base + rows.starts, base + rows.ends
    order = np.argsort(low, kind="stable")
    low, high = low[order], high[order]
    reach = np.maximum.accumulate(high)
    fresh = np.ones(len(low), dtype=bool)
    fresh[1:] = low[1:] > reach[:-1]
    first = np.flatnonzero(fresh)
    ends = np.maximum.reduceat(high, first)
    tiles = low[first] // span
    return Rows(rows.size, tiles, low[first] - tiles * span, ends - tiles * span)


def split_by_home(rows: Rows, tile_map: TileMap) -> tuple[Rows, Ints]:
    """Cut intervals where the elements' own tile changes: the pieces, and the tile that holds each."""
    low = np.searchsorted(tile_map.starts, rows.starts, side="right") - 1
    high = np.searchsorted(tile_map.starts, rows.ends, side="left")
    counts = high - low
    owner = np.repeat(np.arange(len(counts)), counts)
    offsets = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    segment = low[owner] + offsets
    limits = np.append(tile_map.starts[1:], np.iinfo(np.int64).max)
    starts = np.maximum(tile_map.starts[segment], rows.starts[owner])
    ends = np.minimum(limits[segment], rows.ends[owner])
    return Rows(rows.size, rows.tiles[owner], starts, ends), tile_map.tiles[segment].astype(np.int64)


def measure_traffic(program: MappedProgram, every: list[Rows], *, outgoing: bool = False) -> Traffic:
    """What has to arrive so that each tile has its intervals; with `outgoing`, so that their homes get them."""
    tiles = program.tiles
    received, sent = np.zeros(tiles, dtype=np.int64), np.zeros(tiles, dtype=np.int64)
    pieces = np.zeros(tiles, dtype=np.int64)
    across = 0
    by_size: dict[int, list[Rows]] = {}
    for rows in every:
        by_size.setdefault(rows.size, []).append(rows)
    for size, parts in by_size.items():
        merged = merge_rows(
            Rows(
                size, *(np.concatenate([getattr(part, name) for part in parts]) for name in ("tiles", "starts", "ends"))
            )
        )
        if not len(merged.starts):
            continue
        cut, homes = split_by_home(merged, program.tile_maps[size])
        foreign = np.flatnonzero((homes != cut.tiles) & (homes >= 0) & (cut.tiles >= 0))
        own, home = cut.tiles[foreign], homes[foreign]
        starts, ends = cut.starts[foreign], cut.ends[foreign]
        lengths = (ends - starts) * size
        target, source = (home, own) if outgoing else (own, home)
        received += np.bincount(target, lengths, tiles).astype(np.int64)
        pieces += np.bincount(target, minlength=tiles)
        once = merge_rows(Rows(size, source, starts, ends))
        sent += np.bincount(once.tiles, (once.ends - once.starts) * size, tiles).astype(np.int64)
        ipu = program.tiles_per_ipu
        across += int(lengths[(own // ipu) != (home // ipu)].sum())
    return Traffic(received, sent, across, int(pieces.max(initial=0)))


def measure_copy(program: MappedProgram, source: View, target: View) -> tuple[Traffic, Ints]:
    """A copy from view to view: what travels, and what each tile copies within itself."""
    tiles, size = program.tiles, source.type.bytes
    tile_map = program.tile_maps[size]
    cut = _cut_together(source, target, tile_map)
    if cut is None:
        leaves = tile_map.find(source.list_addresses()).astype(np.int64)
        arrives = tile_map.find(target.list_addresses()).astype(np.int64)
        lengths = np.full(len(leaves), size, dtype=np.int64)
    else:
        leaves, arrives, lengths = cut
    known = (leaves >= 0) & (arrives >= 0)
    leaves, arrives, lengths = leaves[known], arrives[known], lengths[known]
    foreign = leaves != arrives
    received = np.bincount(arrives[foreign], lengths[foreign], tiles).astype(np.int64)
    sent = np.bincount(leaves[foreign], lengths[foreign], tiles).astype(np.int64)
    local = np.bincount(arrives[~foreign], lengths[~foreign], tiles).astype(np.int64)
    ipu = program.tiles_per_ipu
    across = int(lengths[(leaves // ipu) != (arrives // ipu)].sum())
    pieces = int(np.bincount(arrives[foreign], minlength=1).max(initial=0))
    return Traffic(received, sent, across, min(pieces, 1 << 16)), local


def _cut_together(source: View, target: View, tile_map: TileMap) -> tuple[Ints, Ints, Ints] | None:
    """Two views whose elements lie one after the other, cut where either changes its tile."""
    first, second = _as_run(source), _as_run(target)
    if first is None or second is None:
        return None
    count = source.elements
    cuts = [np.array([0], dtype=np.int64)]
    for start in (first, second):
        low, high = np.searchsorted(tile_map.starts, [start, start + count], side="left")
        inside = tile_map.starts[low:high] - start
        cuts.append(inside[(inside > 0) & (inside < count)])
    places = np.unique(np.concatenate(cuts))
    lengths = np.diff(np.append(places, count)) * source.type.bytes
    leaves, arrives = (tile_map.find(places + start).astype(np.int64) for start in (first, second))
    return leaves, arrives, lengths


def _as_run(view: View) -> int | None:
    """Where a view begins, if its elements lie one after the other."""
    if view.addresses is not None or not view.elements:
        return None
    step = 1
    for size, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if size != 1 and stride != step:
            return None
        step *= size
    return view.offset
