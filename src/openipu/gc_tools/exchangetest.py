"""`gc-exchangetest`: moves data between the modelled tiles of an IPU, and checks what arrives.

In: a device, or all. Out: for each pattern the words that went wrong, and the phase's modelled time: what the tile that
receives most takes, at the exchange's width, and the launch of the phase, as the planner counts an exchange.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openipu.errors import OptionError
from openipu.gc_tools.tile_memory import WORD_BYTES, StuckBit, TileMemories, Words, parse_stuck_bit
from openipu.gc_tools.tool import FAILED, MEASURED, MODELLED, PASSED, hold, look, make_parser, print_json, run_tool
from openipu.machine import Target

Sources = npt.NDArray[np.int64]

DEFAULT_BYTES = 4096
ALL_TO_ALL = "all to all"


@dataclass(frozen=True, slots=True)
class PatternResult:
    """One exchange phase."""

    name: str
    received_bytes_per_tile: int
    wrong_words: int
    host_seconds: float
    modelled_cycles: float


def list_patterns(tiles: int) -> dict[str, Sources]:
    """For each pattern, the tile that each tile receives from."""
    numbers = np.arange(tiles, dtype=np.int64)
    return {
        "next tile": (numbers + 1) % tiles,
        "opposite tile": (numbers + tiles // 2) % tiles,
        "mirrored": numbers[::-1].copy(),
        "pairs": np.where(numbers ^ 1 < tiles, numbers ^ 1, numbers),
        "broadcast": np.zeros_like(numbers),
        "spread": (numbers * _find_step(tiles)) % tiles,
    }


def check_exchange(target: Target, message_bytes: int, stuck: Sequence[StuckBit] = ()) -> list[PatternResult]:
    """Run every pattern with messages of so many bytes; all-to-all with one word from each tile to each."""
    words = message_bytes // WORD_BYTES
    sent = _number_messages(target.tiles, words)
    results = [
        _run_pattern(name, target, sent, sources, stuck) for name, sources in list_patterns(target.tiles).items()
    ]
    return [*results, _run_all_to_all(target, stuck)]


def model_phase(target: Target, received_bytes_per_tile: int) -> float:
    """Cycles of one exchange phase."""
    return received_bytes_per_tile / target.exchange_bytes_per_cycle + target.phase_launch_cycles


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser("gc-exchangetest", "Test the modelled exchange between the tiles of the virtual IPUs.")
    parser.add_argument(
        "--message-bytes", type=int, default=DEFAULT_BYTES, metavar="N", help="from tile to tile (default: %(default)s)"
    )
    parser.add_argument(
        "--inject-fault",
        type=parse_stuck_bit,
        action="append",
        default=[],
        metavar="TILE:ADDRESS:BIT",
        help="let a bit of what a tile receives be stuck at 1, to see the test fail",
    )
    return run_tool(parser, _execute, argv)


def _execute(arguments: argparse.Namespace) -> int:
    view = look(arguments.partition)
    target = view.pod.description.system.target
    size = arguments.message_bytes
    if not WORD_BYTES <= size <= target.tile_memory_bytes // 2 or size % WORD_BYTES:
        raise OptionError(
            f"--message-bytes {size}: give a multiple of {WORD_BYTES}, up to {target.tile_memory_bytes // 2}, half a "
            "tile's memory."
        )
    devices = []
    failed = False
    for ipu in view.choose(arguments.device_id):
        with hold(view, ipu, "gc-exchangetest"):
            results = check_exchange(target, size, arguments.inject_fault)
        wrong = any(result.wrong_words for result in results)
        failed |= wrong
        devices.append(
            {
                "id": str(ipu.id),
                "result": "failed" if wrong else "passed",
                "patterns": [_describe(result, target) for result in results],
            }
        )
        if not arguments.json:
            print(f"Device {ipu.id}: {devices[-1]['result']} ({target.tiles} modelled tiles, messages of {size} B)")
            for result in results:
                verdict = f"{result.wrong_words} wrong words" if result.wrong_words else "data correct"
                seconds = target.seconds(result.modelled_cycles)
                print(
                    f"  {result.name:<14} {verdict:<16} {result.modelled_cycles:>8,.0f} cycles = {seconds * 1e6:.2f} "
                    f"us modelled; {result.host_seconds * 1e3:.1f} ms measured on this host"
                )
    if arguments.json:
        print_json({"devices": devices})
    return FAILED if failed else PASSED


def _describe(result: PatternResult, target: Target) -> dict[str, object]:
    return {
        "name": result.name,
        "received_bytes_per_tile": result.received_bytes_per_tile,
        "wrong_words": result.wrong_words,
        "cycles": {"value": result.modelled_cycles, "kind": MODELLED},
        "ipu_seconds": {"value": target.seconds(result.modelled_cycles), "kind": MODELLED},
        "duration_seconds": {"value": result.host_seconds, "kind": MEASURED},
    }


def _number_messages(tiles: int, words: int) -> Words:
    """A word says whose it is and where it belongs: mixed-up tiles and places differ."""
    rows = np.arange(tiles, dtype=np.uint32) * np.uint32(0x9E3779B1)
    return rows[:, None] ^ np.arange(words, dtype=np.uint32)[None, :]


def _run_pattern(name: str, target: Target, sent: Words, sources: Sources, stuck: Sequence[StuckBit]) -> PatternResult:
    started = time.perf_counter()
    received = TileMemories(target.tiles, sent.shape[1] * WORD_BYTES, _keep_inside(stuck, sent.shape[1]))
    received.write(sent[sources])
    seconds = time.perf_counter() - started
    expected_rows = sources.astype(np.uint32) * np.uint32(0x9E3779B1)
    places = np.arange(sent.shape[1], dtype=np.uint32)
    wrong = int((received.read() ^ places[None, :] != expected_rows[:, None]).sum())
    size = sent.shape[1] * WORD_BYTES
    return PatternResult(name, size, wrong, seconds, model_phase(target, size))


def _run_all_to_all(target: Target, stuck: Sequence[StuckBit]) -> PatternResult:
    started = time.perf_counter()
    tiles = target.tiles
    sent = _number_messages(tiles, tiles)  # row: the sender, column: the receiver
    received = TileMemories(tiles, tiles * WORD_BYTES, _keep_inside(stuck, tiles))
    received.write(np.ascontiguousarray(sent.T))
    seconds = time.perf_counter() - started
    senders = np.arange(tiles, dtype=np.uint32) * np.uint32(0x9E3779B1)
    receivers = np.arange(tiles, dtype=np.uint32)
    wrong = int((received.read() ^ receivers[:, None] != senders[None, :]).sum())
    size = tiles * WORD_BYTES
    return PatternResult(ALL_TO_ALL, size, wrong, seconds, model_phase(target, size))


def _keep_inside(stuck: Sequence[StuckBit], words: int) -> list[StuckBit]:
    return [bit for bit in stuck if bit.address // WORD_BYTES < words]


def _find_step(tiles: int) -> int:
    """A step that visits every tile once."""
    step = max(2, int(tiles * 0.618))
    while np.gcd(step, tiles) != 1:
        step += 1
    return step
