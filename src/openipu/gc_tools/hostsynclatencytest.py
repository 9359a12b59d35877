"""`gc-hostsynclatencytest`: how long a signal to the host and back takes.

In: a device and how often. Out: the round trip between two threads of this host, which is what a host sync costs here
(measured), and the sync between the IPUs of the partition (modelled).
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import threading
import time
from collections.abc import Sequence

from openipu.errors import OptionError
from openipu.gc_tools.tool import MEASURED, MODELLED, PASSED, hold, look, make_parser, print_json, run_tool
from openipu.machine import Target

_HOP_SECONDS = 15e-9  # one way, a hop: what the vendor's open test set-up gives its IPU model


def measure_round_trips(iterations: int) -> list[float]:
    """Seconds of each round trip through two pipes to another thread."""
    to_device, from_host = os.pipe(), os.pipe()

    def answer() -> None:
        for _ in range(iterations):
            os.read(to_device[0], 1)
            os.write(from_host[1], b"x")

    device = threading.Thread(target=answer, daemon=True)
    device.start()
    times = []
    for _ in range(iterations):
        started = time.perf_counter()
        os.write(to_device[1], b"x")
        os.read(from_host[0], 1)
        times.append(time.perf_counter() - started)
    device.join()
    for descriptor in (*to_device, *from_host):
        os.close(descriptor)
    return times


def model_external_sync_cycles(target: Target, ipus: int) -> int:
    """Cycles of a sync between so many IPUs: there and back over the hops of a ladder."""
    if ipus == 1:
        return 0
    hops = 1 + (ipus // 2) / 2
    return math.ceil(_HOP_SECONDS * target.clock_hz * hops * 2)


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser("gc-hostsynclatencytest", "Measure how long a signal to the host and back takes here.")
    parser.add_argument("-i", "--iterations", type=int, default=1000, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--which-hsp", choices=("hsp1", "hsp2", "both"), default="hsp1", help="both mean the same here")
    parser.add_argument(
        "-m", "--sync-mode", choices=("posted", "polling", "hybrid"), default="hybrid", help="no effect"
    )
    return run_tool(parser, _execute, argv)


def _execute(arguments: argparse.Namespace) -> int:
    if arguments.iterations < 1:
        raise OptionError("--iterations must be at least 1.")
    view = look(arguments.partition)
    target = view.pod.description.system.target
    cycles = model_external_sync_cycles(target, len(view.ipus))
    (ipu,) = view.choose(arguments.device_id or 0)
    with hold(view, ipu, "gc-hostsynclatencytest"):
        times = measure_round_trips(arguments.iterations)
    row = {
        "ipu_id": str(ipu.id),
        "sync_mode": arguments.sync_mode,
        "hsp": arguments.which_hsp,
        "iterations": str(arguments.iterations),
        "time_to_sync_us": {"value": round(statistics.median(times) * 1e6, 2), "kind": MEASURED},
        "longest_us": {"value": round(max(times) * 1e6, 2), "kind": MEASURED},
        "ipu_sync_us": {"value": round(target.seconds(cycles) * 1e6, 4), "kind": MODELLED, "ipus": len(view.ipus)},
        "result": "done",
    }
    if arguments.json:
        print_json(row)
        return PASSED
    print(f"Device {ipu.id}: {statistics.median(times) * 1e6:.2f} us to the host and back (median of {len(times)})")
    print(f"  longest {max(times) * 1e6:.2f} us; both measured between two threads of this host")
    print(f"  sync of {len(view.ipus)} IPUs: {cycles} cycles = {target.seconds(cycles) * 1e6:.3f} us, modelled")
    return PASSED
