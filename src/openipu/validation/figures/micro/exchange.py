"""Exchange between tiles, over links between IPUs, and from the host.

In: rows of latencies and bandwidths. Out: predictions by the exchange patterns of `ops.patterns` and the figures of the
system. A smallest message is one word.
"""

from __future__ import annotations

from openipu.ops.cost import OpCost
from openipu.ops.patterns import (
    WORD_BYTES,
    Way,
    broadcast_to_tiles,
    copy_to_tile,
    count_hops,
    cross_links,
    exchange_all_to_all,
    gather_on_tile,
    measure_bisection,
    measure_way,
    scatter_from_tile,
)
from openipu.validation.figures import confidence
from openipu.validation.figures.micro.reading import Bench, find_bench, speaks_of
from openipu.validation.figures.outcome import Outcome, Prediction, Predictor, Unmodelled
from openipu.validation.figures.rows import FigureRow

_LARGE_BYTES = 1 << 24  # a message whose latency no longer matters
_HEADER_WORDS = 1  # a word that comes over a link brings one of addresses with it


def predict_pair(row: FigureRow) -> Outcome:
    """One tile to another: on chip, on the board, on a neighbouring board, or further."""
    bench = find_bench(row)
    where = str(row.params.get("where", "on-chip"))
    if where == "on-chip":
        if "latency" in row.metric:
            return _answer(row, bench.seconds(copy_to_tile(WORD_BYTES, bench.context)), confidence.EXCHANGE)
        return _answer(row, _measure_rate(copy_to_tile(_LARGE_BYTES, bench.context), bench), confidence.EXCHANGE)
    off_board = where.startswith("off-board")
    if "bandwidth" in row.metric:
        on_chip = _measure_rate(copy_to_tile(_LARGE_BYTES, bench.context), bench)
        link = bench.system.off_board_link_bytes_per_second if off_board else bench.system.ipu_link_bytes_per_second
        return _answer(row, min(on_chip * bench.system.ipu_link_efficiency, link), confidence.LINKS)
    hops = 2 if "indirect" in where else 1
    busy = str(row.params.get("load", "idle")) != "idle"
    waiting = bench.tiles * bench.system.ipu_link_packet_bytes if busy else 0.0
    links = cross_links(hops, bench.system, waiting_bytes=waiting, off_board=off_board)
    return _answer(row, bench.seconds(copy_to_tile(WORD_BYTES, bench.context), links), confidence.LINKS)


def predict_way(row: FigureRow) -> Outcome:
    """A word on its way, without the sync."""
    bench = find_bench(row)
    target = bench.system.target
    if "slope" in row.metric:
        return _answer(row, target.seconds(target.exchange_island_cycles), confidence.EXCHANGE)
    where = str(row.params.get("where", ""))
    if where == "same column":
        way = Way.COLUMN if row.params.get("n") == "max" else Way.NEAREST
    else:
        way = Way.FARTHEST if "farthest" in where else Way.ANY
    return _answer(row, target.seconds(measure_way(way, bench.context)), confidence.EXCHANGE)


def predict_between_ipus(row: FigureRow) -> Outcome:
    """The nearest or the farthest of the row's IPUs, or what one more link adds."""
    bench = find_bench(row)
    if "slope" in row.metric:
        return _answer(row, bench.system.ipu_link_hop_seconds, confidence.LINKS)
    hops = 1 if row.params.get("n") == "min" else count_hops(row.ipus, bench.system)
    links = cross_links(hops, bench.system)
    return _answer(row, bench.seconds(copy_to_tile(WORD_BYTES, bench.context), links), confidence.LINKS)


def predict_all_pairs(row: FigureRow) -> Outcome:
    """Every tile sends to a partner of its own."""
    bench = find_bench(row)
    tiles = row.read_size("tiles", bench.tiles)
    rate = tiles * _measure_rate(copy_to_tile(_LARGE_BYTES, bench.context, pairs=tiles), bench)
    return _answer(row, rate, confidence.EXCHANGE)


def predict_link(row: FigureRow) -> Outcome:
    """Bulk transfer between two IPUs."""
    system = find_bench(row).system
    on_board = str(row.params.get("pair", "")).startswith("on-board")
    rate = system.ipu_link_bytes_per_second if on_board else system.off_board_link_bytes_per_second
    if rate <= 0:
        return Unmodelled(f"{system.name} has no such link")
    ways = 2 if row.params.get("dir") == "both ways" else 1
    return _answer(row, ways * rate, confidence.EXCHANGE)


def predict_permutation(row: FigureRow) -> Outcome:
    """Every tile to a random tile of any IPU: the links between the halves take it all, one turn after the other."""
    return _answer(row, measure_bisection(row.read_size("ipus", row.ipus), find_bench(row).system), confidence.LINKS)


def predict_broadcast(row: FigureRow) -> Outcome:
    """One tile to all tiles; over several IPUs first to each chip, then on it."""
    bench = find_bench(row)
    on_chip = broadcast_to_tiles(WORD_BYTES, bench.tiles, bench.context)
    if row.ipus == 1:
        return _answer(row, bench.seconds(on_chip), confidence.EXCHANGE)
    links = cross_links(count_hops(row.ipus, bench.system), bench.system)
    return _answer(row, bench.seconds(copy_to_tile(WORD_BYTES, bench.context), links, on_chip), confidence.LINKS)


def predict_broadcast_rate(row: FigureRow) -> Outcome:
    """Received by all: over links the source sends a copy each way along the chain, then chips spread it."""
    bench = find_bench(row)
    destinations = row.read_size("dest tiles", bench.tiles)
    seconds = bench.seconds(broadcast_to_tiles(_LARGE_BYTES, bench.tiles, bench.context))
    if destinations > bench.tiles:
        to_link = _measure_rate(copy_to_tile(_LARGE_BYTES, bench.context), bench) * bench.system.ipu_link_efficiency
        return _answer(row, destinations * _LARGE_BYTES / (seconds + 2 * _LARGE_BYTES / to_link), confidence.LINKS)
    return _answer(row, destinations * _LARGE_BYTES / seconds, confidence.EXCHANGE)


def predict_broadcast_size(row: FigureRow) -> Outcome:
    """The message that reaches nine tenths of the peak: nine times what latency costs."""
    bench = find_bench(row)
    latency = bench.seconds(broadcast_to_tiles(0, bench.tiles, bench.context))
    rate = _LARGE_BYTES / bench.seconds(broadcast_to_tiles(_LARGE_BYTES, bench.tiles, bench.context))
    return _answer(row, 9 * latency * rate, confidence.LINKS)


def predict_gather(row: FigureRow) -> Outcome:
    """All tiles to one: the receiver takes one word after the other, those from other IPUs with an address."""
    bench = find_bench(row)
    if "bandwidth" in row.metric:
        return _answer(row, _measure_rate(gather_on_tile(_LARGE_BYTES, 1, bench.context), bench), confidence.EXCHANGE)
    sources = row.read_size("src tiles", bench.tiles)
    remote = max(0, sources - bench.tiles)
    words = sources + _HEADER_WORDS * remote
    return _answer_over_ipus(row, bench, gather_on_tile(WORD_BYTES, words, bench.context))


def predict_scatter(row: FigureRow) -> Outcome:
    """One tile to all, each its own word."""
    bench = find_bench(row)
    if "bandwidth" in row.metric:
        return _answer(
            row, _measure_rate(scatter_from_tile(_LARGE_BYTES, 1, bench.context), bench), confidence.EXCHANGE
        )
    destinations = row.read_size("dest tiles", bench.tiles)
    return _answer_over_ipus(row, bench, scatter_from_tile(WORD_BYTES, destinations, bench.context))


def predict_all_to_all(row: FigureRow) -> Outcome:
    """Every tile to every other."""
    bench = find_bench(row)
    cost = exchange_all_to_all(WORD_BYTES, row.read_size("tiles", bench.tiles), bench.context)
    return _answer_over_ipus(row, bench, cost)


def _answer_over_ipus(row: FigureRow, bench: Bench, cost: OpCost) -> Outcome:
    if row.ipus == 1:
        return _answer(row, bench.seconds(cost), confidence.EXCHANGE)
    links = cross_links(count_hops(row.ipus, bench.system), bench.system)
    return _answer(row, bench.seconds(cost, links), confidence.LINKS)


def _measure_rate(cost: OpCost, bench: Bench) -> float:
    """Bytes a second of a large message, latency included."""
    return _LARGE_BYTES / bench.seconds(cost)


def _answer(row: FigureRow, value: float, spread: float) -> Outcome:
    return Prediction.around(row.from_si(value), spread, "exchange patterns and links of the system")


EXCHANGE_PREDICTORS = (
    Predictor("way", speaks_of("tile-to-tile", "excl. sync"), predict_way),
    Predictor("between IPUs", speaks_of("inter-ipu tile-to-tile"), predict_between_ipus),
    Predictor("all pairs", speaks_of("simultaneous tile-to-tile"), predict_all_pairs),
    Predictor("pair of tiles", speaks_of("tile-to-tile copy"), predict_pair),
    Predictor("link", speaks_of("ipu-to-ipu bulk"), predict_link),
    Predictor("permutation", speaks_of("random tile permutation"), predict_permutation),
    Predictor("broadcast size", speaks_of("broadcast message size"), predict_broadcast_size),
    Predictor("broadcast rate", speaks_of("broadcast bandwidth"), predict_broadcast_rate),
    Predictor("broadcast", speaks_of("broadcast", "minimum message"), predict_broadcast),
    Predictor("gather", speaks_of("gather"), predict_gather),
    Predictor("scatter", speaks_of("scatter"), predict_scatter),
    Predictor("all to all", speaks_of("all-to-all"), predict_all_to_all),
)
