"""Exchange patterns between tiles of one IPU and over links: what one phase of each takes.

In: bytes, tiles, a `CostContext`; over links also the `System`. Out: `OpCost` with a sync and an exchange, or a link
step. The rate is that of the exchange rule (`steps.exchange`); the latency, which a plan holds in the launch of
a phase, stands here by itself: sync, way to the farthest tile that takes part, hops between IPUs.
"""

from __future__ import annotations

from enum import Enum

from openipu.machine import Provenance, System
from openipu.ops.cost import CostContext, CostStep, Family, OpCost, StepKind
from openipu.ops.steps import Steps, exchange, wrap

WORD_BYTES = 4  # the smallest message
_BASIS = "exchange rate of the target, with sync and way"


class Way(Enum):
    """Which tile a word goes to."""

    NEAREST = "nearest"
    COLUMN = "farthest of the column"
    ANY = "any"
    FARTHEST = "farthest"


def measure_way(way: Way, context: CostContext) -> float:
    """Cycles of one word, without the sync."""
    target = context.target
    return {
        Way.NEAREST: target.exchange_latency_cycles,
        Way.COLUMN: target.column_latency_cycles,
        Way.ANY: target.mean_latency_cycles,
        Way.FARTHEST: target.farthest_latency_cycles,
    }[way]


def copy_to_tile(size_bytes: float, context: CostContext, *, way: Way = Way.ANY, pairs: int = 1) -> OpCost:
    """`pairs` of tiles at once, each sender to its own receiver: the exchange is planned, so nobody waits."""
    return _make_phase("copy", exchange("copy", size_bytes, pairs, context), way, context)


def broadcast_to_tiles(size_bytes: float, tiles: int, context: CostContext) -> OpCost:
    """One tile to many: neighbours on one bus take the data together, so each receives at the rate of all of them."""
    sharing = max(1, context.target.exchange_sharing_tiles)
    return _make_phase("broadcast", exchange("broadcast", size_bytes / sharing, tiles, context), Way.FARTHEST, context)


def gather_on_tile(size_bytes: float, sources: int, context: CostContext) -> OpCost:
    """Many tiles to one, which receives one piece after the other."""
    return _make_phase("gather", exchange("gather", size_bytes * sources, 1, context), Way.FARTHEST, context)


def scatter_from_tile(size_bytes: float, destinations: int, context: CostContext) -> OpCost:
    """One tile to many, each its own piece: sending is as fast as receiving."""
    return _make_phase("scatter", exchange("scatter", size_bytes * destinations, 1, context), Way.FARTHEST, context)


def exchange_all_to_all(size_bytes: float, tiles: int, context: CostContext) -> OpCost:
    """Every tile to every other."""
    return _make_phase(
        "all to all", exchange("all to all", size_bytes * (tiles - 1), tiles, context), Way.FARTHEST, context
    )


def cross_links(hops: int, system: System, *, waiting_bytes: float = 0.0, off_board: bool = False) -> OpCost:
    """The way to another IPU, `hops` links away, behind `waiting_bytes` that take the same link."""
    rate = system.off_board_link_bytes_per_second if off_board else system.ipu_link_bytes_per_second
    seconds = system.ipu_link_latency_seconds + system.ipu_link_hop_seconds * hops
    if waiting_bytes:
        seconds += waiting_bytes / rate
    step = CostStep(
        StepKind.LINK,
        "links",
        seconds * system.target.clock_hz,
        system.target.tiles,
        moved_bytes=round(waiting_bytes),
    )
    return wrap(Family.TRANSFER, (step,), basis="latency of the links, bytes over their rate")


def count_hops(ipus: int, system: System) -> int:
    """Links between the two IPUs that are farthest apart: boards in a chain, and one more on the last board."""
    if ipus <= 1:
        return 0
    boards = -(-ipus // system.ipus_per_board)
    return boards - 1 + (1 if system.ipus_per_board > 1 else 0)


def measure_bisection(ipus: int, system: System) -> float:
    """Bytes a second, both ways, over the links that part the IPUs in two halves."""
    if ipus <= system.ipus_per_board:
        return 2 * system.ipu_link_bytes_per_second
    rails = system.ipus_per_board
    return 2 * rails * system.off_board_link_bytes_per_second


def _make_phase(name: str, moved: Steps, way: Way, context: CostContext) -> OpCost:
    steps = (
        CostStep(StepKind.SYNC, "sync", context.target.sync_cycles, context.tiles),
        CostStep(StepKind.EXCHANGE, f"{name}: way", measure_way(way, context), context.tiles),
        *moved,
    )
    return wrap(Family.TRANSFER, steps, basis=_BASIS, provenance=Provenance.DERIVED)
