"""`gc-hosttraffictest`: moves data between the host and tiles, in both directions at once or one alone.

In: a device, or all. Out: in the layout that scripts know, the rate that the link to the host is described with
(modelled), and the rate at which this host copies the same blocks (measured), checked after every copy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openipu.errors import OptionError
from openipu.gc_tools.tool import FAILED, MEASURED, MODELLED, PASSED, hold, look, make_parser, print_json, run_tool
from openipu.machine import System

BLOCK_BYTES = 64
DIRECTIONS = {
    "host_from_buffer_from_tile": "tiles write to the host's buffer",
    "host_to_buffer_to_tile": "tiles read from the host's buffer",
    "host_to_buffer_from_tile": "the host writes to its buffer while tiles write",
    "host_from_buffer_to_tile": "the host reads from its buffer while tiles read",
}
_BOTH_WAYS = ("host_to_buffer_from_tile", "host_from_buffer_to_tile")


@dataclass(frozen=True, slots=True)
class Traffic:
    """One direction, tried on this host."""

    moved_bytes: int
    seconds: float
    wrong_bytes: int


def move_blocks(tiles: int, blocks: int, iterations: int, *, both_ways: bool) -> Traffic:
    """Copy every tile's blocks to a buffer and look at them; with `both_ways`, another buffer comes back as well."""
    size = blocks * BLOCK_BYTES
    generator = np.random.default_rng(1)
    tile_memory = generator.integers(0, 256, (tiles, size), dtype=np.uint8)
    buffer = np.zeros_like(tile_memory)
    back = generator.integers(0, 256, (tiles, size), dtype=np.uint8) if both_ways else None
    received = np.zeros_like(tile_memory) if both_ways else None
    seconds, wrong = 0.0, 0
    for step in range(iterations):
        tile_memory += np.uint8(1)  # other data every time, so that an old copy is noticed
        started = time.perf_counter()
        np.copyto(buffer, tile_memory)
        if back is not None and received is not None:
            np.copyto(received, back)
        seconds += time.perf_counter() - started
        wrong += int((buffer != tile_memory).sum())
        if received is not None and back is not None and step == iterations - 1:
            wrong += int((received != back).sum())
    return Traffic(tiles * size * iterations * (2 if both_ways else 1), seconds, wrong)


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser("gc-hosttraffictest", "Test data transfer between the host and the virtual IPUs.")
    parser.add_argument("-i", "--iterations", type=int, default=10, metavar="N", help="(default: %(default)s)")
    parser.add_argument(
        "--blocks", type=int, default=64, metavar="N", help="of 64 B for each tile (default: %(default)s)"
    )
    return run_tool(parser, _execute, argv)


def _execute(arguments: argparse.Namespace) -> int:
    if arguments.iterations < 1 or not 1 <= arguments.blocks <= 4096:
        raise OptionError("--iterations must be at least 1, and --blocks 1 to 4096.")
    view = look(arguments.partition)
    system = view.pod.description.system
    devices, failed = [], False
    for ipu in view.choose(arguments.device_id):
        with hold(view, ipu, "gc-hosttraffictest"):
            results = {
                name: move_blocks(
                    system.target.tiles, arguments.blocks, arguments.iterations, both_ways=name in _BOTH_WAYS
                )
                for name in DIRECTIONS
            }
        failed |= any(traffic.wrong_bytes for traffic in results.values())
        repeat = {name: _describe(name, traffic, system) for name, traffic in results.items()}
        devices.append({"id": str(ipu.id), "repeat_0": repeat})
        if not arguments.json:
            _print(ipu.id, repeat)
    if arguments.json:
        configuration = {
            "number_of_ipus": str(len(devices)),
            "tiles_per_ipu": str(system.target.tiles),
            "tile_transfers_enabled": "true",
            "host_transfers_enabled": "true",
            "transfer_size_64byte_blocks": str(arguments.blocks),
            "iterations": str(arguments.iterations),
        }
        print_json({"configuration": configuration, "devices": devices})
    return FAILED if failed else PASSED


def _describe(name: str, traffic: Traffic, system: System) -> dict[str, str]:
    modelled = system.host_bytes_per_second * (2 if name in _BOTH_WAYS else 1)
    return {
        "description": DIRECTIONS[name],
        "data": "wrong" if traffic.wrong_bytes else "correct",
        "duration_seconds": f"{traffic.seconds:.6f}",
        "host_data_transferred_bytes": str(traffic.moved_bytes),
        "tile_data_transferred_bytes": str(traffic.moved_bytes),
        "host_transfer_speed_gbps": f"{traffic.moved_bytes * 8 / max(traffic.seconds, 1e-9) / 1e9:.3f}",
        "host_transfer_speed_kind": MEASURED,
        "tile_transfer_speed_gbps": f"{modelled * 8 / 1e9:.3f}",
        "tile_transfer_speed_kind": MODELLED,
    }


def _print(device: int, repeat: dict[str, dict[str, str]]) -> None:
    print(f"Device {device}:")
    for name, row in repeat.items():
        print(
            f"  {name:<27} data {row['data']}; IPU {row['tile_transfer_speed_gbps']} Gb/s modelled; host copies "
            f"{row['host_transfer_speed_gbps']} Gb/s measured"
        )
