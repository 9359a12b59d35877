"""`gc-iputraffictest`: moves data between two IPUs, both ways, and checks what arrives.

In: two devices; the same one twice stays on its exchange. Out: bytes, errors, the modelled rate of the link between
them, both ways together, and the rate at which this host moved the same data (measured).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np

from openipu.errors import OptionError, PodError
from openipu.gc_tools.exchangetest import model_phase
from openipu.gc_tools.tile_memory import WORD_BYTES, StuckBit, TileMemories, parse_stuck_bit
from openipu.gc_tools.tool import (
    FAILED,
    MEASURED,
    MODELLED,
    PASSED,
    View,
    hold,
    look,
    make_parser,
    print_json,
    run_tool,
)
from openipu.pod import Ipu
from openipu.pod.links import find_rate

TILE_BYTES = 1024
_FIRST_MARK, _SECOND_MARK = np.uint32(0x0F0F0F0F), np.uint32(0xF0F0F0F0)


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser("gc-iputraffictest", "Test data transfer between two virtual IPUs.", device=False)
    parser.add_argument("--device0", type=int, default=0, metavar="ID", help="(default: %(default)s)")
    parser.add_argument("--device1", type=int, metavar="ID", help="(default: the next one)")
    parser.add_argument("-i", "--iterations", type=int, default=100, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--all-links", action="store_true", help="every pair of neighbours of the partition")
    parser.add_argument(
        "--inject-fault",
        type=parse_stuck_bit,
        action="append",
        default=[],
        metavar="TILE:ADDRESS:BIT",
        help="let a bit of what the second device holds be stuck at 1, to see the test fail",
    )
    parser.add_argument("--forever", action="store_true", help="again and again, until Ctrl-C or a failure")
    return run_tool(parser, _execute, argv)


def exchange_both_ways(tiles: int, iterations: int, stuck: Sequence[StuckBit] = ()) -> tuple[int, int, float]:
    """Swap the memories of two IPUs so often. Bytes moved, words that went wrong, seconds on this host."""
    words = TILE_BYTES // WORD_BYTES
    places = np.arange(tiles * words, dtype=np.uint32).reshape(tiles, words)
    first, second = TileMemories(tiles, TILE_BYTES), TileMemories(tiles, TILE_BYTES, stuck)
    first.write(places ^ _FIRST_MARK)
    second.write(places ^ _SECOND_MARK)
    started = time.perf_counter()
    for _ in range(iterations):
        passing = first.read().copy()
        first.write(second.read())
        second.write(passing)
    seconds = time.perf_counter() - started
    expected = (_FIRST_MARK, _SECOND_MARK) if iterations % 2 == 0 else (_SECOND_MARK, _FIRST_MARK)
    wrong = sum(
        int((memories.read() ^ places != mark).sum()) for memories, mark in zip((first, second), expected, strict=True)
    )
    return 2 * tiles * TILE_BYTES * iterations, wrong, seconds


def _execute(arguments: argparse.Namespace) -> int:
    if arguments.iterations < 1:
        raise OptionError("--iterations must be at least 1.")
    view = look(arguments.partition)
    pairs = _choose_pairs(view, arguments)
    while True:
        results = [_try_pair(view, first, second, arguments) for first, second in pairs]
        if arguments.json:
            print_json({"tile_to_tile": results if arguments.all_links else results[0]})
        else:
            for row in results:
                print(
                    f"device {row['device0']} <-> device {row['device1']}: {row['gbytes_transferred']} GB, "
                    f"{row['errors']} errors; {row['gbps']} Gb/s both ways, modelled; {row['host_gbps']} Gb/s measured "
                    "on this host"
                )
        if any(row["errors"] != "0" for row in results):
            return FAILED
        if not arguments.forever:
            return PASSED


def _choose_pairs(view: View, arguments: argparse.Namespace) -> list[tuple[Ipu, Ipu]]:
    if arguments.all_links:
        pairs = [(first, second) for first, second in zip(view.ipus, view.ipus[1:], strict=False)]
        if not pairs:
            raise PodError("There is one IPU in this partition: no link to test. Use --device0 0 --device1 0 instead.")
        return pairs
    (first,) = view.choose(arguments.device0)
    other = arguments.device1
    if other is None:
        other = arguments.device0 + 1 if arguments.device0 + 1 < len(view.ipus) else arguments.device0
    (second,) = view.choose(other)
    return [(first, second)]


def _try_pair(view: View, first: Ipu, second: Ipu, arguments: argparse.Namespace) -> dict[str, str]:
    system = view.pod.description.system
    loopback = first.id == second.id
    also = nullcontext() if loopback else hold(view, second, "gc-iputraffictest")
    with hold(view, first, "gc-iputraffictest"), also:
        moved, wrong, seconds = exchange_both_ways(system.target.tiles, arguments.iterations, arguments.inject_fault)
    if loopback:
        phase = system.target.seconds(model_phase(system.target, TILE_BYTES))
        rate = 2 * system.target.tiles * TILE_BYTES / phase
    else:
        rate = 2 * find_rate(system, first.number, second.number)
    return {
        "boards": f"{first.host}, {second.host}",
        "device0": str(first.id),
        "device1": str(second.id),
        "errors": str(wrong),
        "kbytes_transferred": f"{moved / 1e3:.0f}",
        "gbytes_transferred": f"{moved / 1e9:.3f}",
        "duration_sec": f"{moved / rate:.6f}" if rate else "N/A",
        "gbps": f"{rate * 8 / 1e9:.3f}",
        "kind": MODELLED,
        "host_duration_sec": f"{seconds:.6f}",
        "host_gbps": f"{moved * 8 / max(seconds, 1e-9) / 1e9:.3f}",
        "host_kind": MEASURED,
        "power": "N/A",
    }
