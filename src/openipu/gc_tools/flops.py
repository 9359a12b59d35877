"""`gc-flops`: how many operations a second an IPU is described to do, and how many this host does.

In: a number format. Out: two figures side by side that have nothing to do with each other: the peak of the modelled
chip, and what this host reaches on a matrix product.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

from openipu.errors import OptionError
from openipu.gc_tools.tool import MEASURED, MODELLED, PASSED, look, make_parser, print_json, run_tool

_ELEMENT_BYTES = {"FP32": 4, "FP16": 2}
_SIZE = 768
_LEAST_SECONDS = 0.3


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser("gc-flops", "Show the modelled peak of an IPU, and what this host reaches.")
    parser.add_argument("-p", "--fp", choices=("FP16", "FP32", "FP8"), default="FP16", help="(default: %(default)s)")
    parser.add_argument("-l", "--low-clock-rate", action="store_true", help="not modelled: says so")
    return run_tool(parser, _execute, argv)


def measure_host_flops(least_seconds: float = _LEAST_SECONDS) -> tuple[float, float]:
    """Operations a second of float32 matrix products on this host, and for how long it was tried."""
    left = np.random.default_rng(1).random((_SIZE, _SIZE), dtype=np.float32)
    np.matmul(left, left)  # start the library's threads
    count, started = 0, time.perf_counter()
    while (seconds := time.perf_counter() - started) < least_seconds:
        np.matmul(left, left)
        count += 1
    return 2.0 * _SIZE**3 * count / seconds, seconds


def _execute(arguments: argparse.Namespace) -> int:
    view = look(arguments.partition)
    target = view.pod.description.system.target
    if arguments.low_clock_rate:
        raise OptionError("A low clock rate is not modelled: describe a chip with another clock_hz in a system file.")
    if arguments.fp not in _ELEMENT_BYTES:
        raise OptionError(f"The description of {target.name} has no rate for {arguments.fp}: use FP16 or FP32.")
    peak = target.peak_flops(_ELEMENT_BYTES[arguments.fp])
    host, seconds = measure_host_flops()
    devices = [
        {
            "id": str(ipu.id),
            "fp": arguments.fp,
            "teraflops": {"value": round(peak / 1e12, 4), "kind": f"{MODELLED} peak"},
            "clock": f"{target.clock_hz / 1e6:.0f}MHz",
        }
        for ipu in view.choose(arguments.device_id)
    ]
    if arguments.json:
        print_json(
            {
                "devices": devices,
                "host": {"fp": "FP32", "teraflops": {"value": round(host / 1e12, 4), "kind": MEASURED}},
            }
        )
        return PASSED
    for device in devices:
        print(f"Device {device['id']}: Flops per IPU ({arguments.fp}): {peak / 1e12:.4f} teraFLOPS, modelled peak")
    print(f"Clock: {target.clock_hz / 1e6:.0f} MHz, modelled")
    print(f"This host (FP32): {host / 1e12:.4f} teraFLOPS, measured (took: {seconds:.2f} s)")
    return PASSED
