"""`gc-reset`: puts devices back to how they were at the start.

In: a device, or all. Out: what was done. A virtual IPU has no state of its own but who holds it: what programs that are
gone left behind is removed, and a device that a living program holds is refused.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from openipu.gc_tools.tool import FAILED, PASSED, look, make_parser, print_json, run_tool


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser("gc-reset", "Reset devices of the virtual pod that nobody uses.")
    return run_tool(parser, _execute, argv)


def _execute(arguments: argparse.Namespace) -> int:
    view = look(arguments.partition)  # looking removes what is left of programs that are gone
    results = []
    for ipu in view.choose(arguments.device_id):
        holder = view.find_holder(ipu)
        results.append(
            {
                "id": str(ipu.id),
                "result": "reset" if holder is None else "in use",
                "pid": str(holder.pid) if holder else "",
            }
        )
    if arguments.json:
        print_json({"devices": results})
    else:
        for result in results:
            if result["pid"]:
                sys.stderr.write(
                    f"gc-reset: device {result['id']} is in use by process {result['pid']}: end it first.\n"
                )
            else:
                print(f"Device {result['id']}: reset (virtual: nothing is attached)")
    return FAILED if any(result["pid"] for result in results) else PASSED
