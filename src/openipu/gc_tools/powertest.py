"""`gc-powertest`: power and temperature under load.

In: how long to work. Out: what this host's own sensors say while it multiplies matrices (measured, where the system
lets them be read). An IPU that is not there draws no power, and none is made up for it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from openipu.errors import OptionError
from openipu.gc_tools.flops import measure_host_flops
from openipu.gc_tools.tool import MEASURED, PASSED, hold, look, make_parser, print_json, run_tool
from openipu.pod.inventory import UNKNOWN

_ENERGY_FILES = "intel-rapl:*/energy_uj"
_TEMPERATURE_FILES = "thermal_zone*/temp"


def read_energy_joules(root: Path = Path("/sys/class/powercap")) -> float | None:
    """Energy that the host's packages have used so far; None where nothing can be read."""
    return _sum_readings(root, _ENERGY_FILES, 1e-6)


def read_temperature(root: Path = Path("/sys/class/thermal")) -> float | None:
    """The hottest zone of this host in degrees Celsius."""
    readings = _read_all(root, _TEMPERATURE_FILES)
    return max(readings) / 1000 if readings else None


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser("gc-powertest", "Work for a while, and show what this host's sensors say.")
    parser.add_argument("--seconds", type=float, default=2.0, metavar="N", help="(default: %(default)s)")
    return run_tool(parser, _execute, argv)


def _execute(arguments: argparse.Namespace) -> int:
    if arguments.seconds <= 0:
        raise OptionError("--seconds must be more than 0.")
    view = look(arguments.partition)
    devices = []
    for ipu in view.choose(arguments.device_id if arguments.device_id is not None else 0):
        with hold(view, ipu, "gc-powertest"):
            before, started = read_energy_joules(), time.perf_counter()
            flops, _ = measure_host_flops(arguments.seconds)
            after, seconds = read_energy_joules(), time.perf_counter() - started
        watts = (after - before) / seconds if before is not None and after is not None and after >= before else None
        temperature = read_temperature()
        devices.append(
            {
                "id": str(ipu.id),
                "ipu power": UNKNOWN,
                "average die temp": UNKNOWN,
                "host power": {"value": UNKNOWN if watts is None else f"{watts:.1f} W", "kind": MEASURED},
                "host temperature": {
                    "value": UNKNOWN if temperature is None else f"{temperature:.1f} C",
                    "kind": MEASURED,
                },
                "host teraflops": {"value": round(flops / 1e12, 4), "kind": MEASURED},
                "duration_seconds": round(seconds, 2),
            }
        )
    if arguments.json:
        print_json({"devices": devices})
        return PASSED
    for device in devices:
        print(f"Device {device['id']}: power N/A, temperature N/A (a virtual IPU has no sensors)")
        for name in ("host power", "host temperature"):
            entry = device[name]
            assert isinstance(entry, dict)
            known = entry["value"] != UNKNOWN
            told = f"{entry['kind']} under {device['duration_seconds']} s of load" if known else "no sensor to read"
            print(f"  {name}: {entry['value']}, {told}")
    return PASSED


def _sum_readings(root: Path, pattern: str, factor: float) -> float | None:
    readings = _read_all(root, pattern)
    return sum(readings) * factor if readings else None


def _read_all(root: Path, pattern: str) -> list[float]:
    found = []
    for path in sorted(root.glob(pattern)):
        try:
            found.append(float(path.read_text()))
        except (OSError, ValueError):  # for root alone, or a zone that is off
            continue
    return found
