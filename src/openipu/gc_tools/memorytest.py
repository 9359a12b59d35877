"""`gc-memorytest`: writes patterns to every word of every tile's memory, and reads them back.

In: a device, or all. Out: the tiles that failed. The memories are arrays of this host, so it is this host's memory that
is tested; what the walk would take on an IPU is modelled from the tiles' widths for loads and stores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from openipu.errors import OptionError
from openipu.gc_tools.tile_memory import StuckBit, TileMemories, Words, parse_stuck_bit
from openipu.gc_tools.tool import FAILED, MEASURED, MODELLED, PASSED, hold, look, make_parser, print_json, run_tool
from openipu.machine import Target

_TILES_AT_ONCE = 32  # 20 MB of a Mk2's memory
_SHOWN_TILES = 8

Pattern = Callable[[TileMemories], "Words | np.uint32"]


def _number_words(memories: TileMemories) -> Words:
    """Every word its own value, by tile and place: finds addresses that are mixed up."""
    tiles, words = memories.shape
    rows = (np.arange(tiles, dtype=np.uint32) + np.uint32(memories.first_tile)) * np.uint32(0x9E3779B1)
    return rows[:, None] ^ np.arange(words, dtype=np.uint32)[None, :]


PATTERNS: dict[str, Pattern] = {
    "zeros": lambda memories: np.uint32(0),
    "ones": lambda memories: np.uint32(0xFFFFFFFF),
    "alternating": lambda memories: np.uint32(0xAAAAAAAA),
    "alternating, inverted": lambda memories: np.uint32(0x55555555),
    "addresses": _number_words,
}


@dataclass(frozen=True, slots=True)
class MemoryResult:
    """What a walk over one IPU's memories found."""

    tested_bytes: int
    failed_words: dict[int, int] = field(default_factory=dict)  # by tile
    host_seconds: float = 0.0
    modelled_cycles: float = 0.0


def check_memories(target: Target, tiles: int, stuck: Sequence[StuckBit] = ()) -> MemoryResult:
    """Walk all patterns over the memories of the first `tiles` tiles."""
    started = time.perf_counter()
    failed: dict[int, int] = {}
    for first in range(0, tiles, _TILES_AT_ONCE):
        count = min(_TILES_AT_ONCE, tiles - first)
        memories = TileMemories(count, target.tile_memory_bytes, stuck, first)
        for pattern in PATTERNS.values():
            values = pattern(memories)
            memories.write(values)
            wrong = (memories.read() != values).sum(axis=1)
            for row in np.flatnonzero(wrong):
                tile = first + int(row)
                failed[tile] = failed.get(tile, 0) + int(wrong[row])
    each = (
        target.tile_memory_bytes / target.store_bytes_per_cycle + target.tile_memory_bytes / target.load_bytes_per_cycle
    )
    return MemoryResult(
        tiles * target.tile_memory_bytes,
        dict(sorted(failed.items())),
        time.perf_counter() - started,
        each * len(PATTERNS),  # all tiles at the same time
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser("gc-memorytest", "Test the modelled tile memories of the virtual IPUs.")
    parser.add_argument("--tiles", type=int, metavar="N", help="only the first N tiles of each device")
    parser.add_argument(
        "--inject-fault",
        type=parse_stuck_bit,
        action="append",
        default=[],
        metavar="TILE:ADDRESS:BIT",
        help="let a bit be stuck at 1, to see the test fail",
    )
    return run_tool(parser, _execute, argv)


def _execute(arguments: argparse.Namespace) -> int:
    view = look(arguments.partition)
    target = view.pod.description.system.target
    tiles = target.tiles if arguments.tiles is None else arguments.tiles
    if not 1 <= tiles <= target.tiles:
        raise OptionError(f"--tiles {tiles}: {target.name} has 1 to {target.tiles} tiles to test.")
    for bit in arguments.inject_fault:
        if bit.tile >= tiles or bit.address >= target.tile_memory_bytes:
            raise OptionError(
                f"--inject-fault: tile {bit.tile}, address {bit.address} is not tested. Tiles are 0 to {tiles - 1}, "
                f"addresses 0 to {target.tile_memory_bytes - 1}."
            )
    devices = []
    for ipu in view.choose(arguments.device_id):
        with hold(view, ipu, "gc-memorytest"):
            result = check_memories(target, tiles, arguments.inject_fault)
        devices.append(_describe(ipu.id, tiles, result, target))
        if not arguments.json:
            _print(devices[-1], result)
    if arguments.json:
        print_json({"devices": devices})
    return FAILED if any(device["result"] == "failed" for device in devices) else PASSED


def _describe(device: int, tiles: int, result: MemoryResult, target: Target) -> dict[str, object]:
    return {
        "id": str(device),
        "result": "failed" if result.failed_words else "passed",
        "tested": "memory of this host that stands for tile memory",
        "tiles": tiles,
        "patterns": list(PATTERNS),
        "tested_bytes": result.tested_bytes,
        "failed_tiles": [{"tile": tile, "words": words} for tile, words in result.failed_words.items()],
        "duration_seconds": {"value": round(result.host_seconds, 3), "kind": MEASURED},
        "ipu_seconds": {"value": target.seconds(result.modelled_cycles), "kind": MODELLED},
    }


def _print(device: dict[str, object], result: MemoryResult) -> None:
    print(
        f"Device {device['id']}: {device['tiles']} tiles, {result.tested_bytes / 2**20:,.0f} MiB, {len(PATTERNS)} "
        f"patterns: {device['result']} in host memory ({result.host_seconds:.2f} s measured on this host)"
    )
    for tile, words in list(result.failed_words.items())[:_SHOWN_TILES]:
        print(f"  tile {tile}: {words} wrong words over all patterns")
    if len(result.failed_words) > _SHOWN_TILES:
        print(f"  and {len(result.failed_words) - _SHOWN_TILES} more tiles: --json lists all")
