"""`gc-inventory`: every device with all its attributes, for people and for scripts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from openipu.gc_tools.info import print_attributes
from openipu.gc_tools.tool import PASSED, look, make_parser, print_json, run_tool
from openipu.pod import describe_attributes


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser("gc-inventory", "List all devices of the virtual pod with their attributes.")
    parser.add_argument("--all-partitions", action="store_true", help="devices of all partitions")
    return run_tool(parser, _execute, argv)


def _execute(arguments: argparse.Namespace) -> int:
    view = look(arguments.partition, all_partitions=arguments.all_partitions)
    devices = [describe_attributes(view.pod, ipu, view.find_holder(ipu)) for ipu in view.choose(arguments.device_id)]
    if arguments.json:
        print_json({"devices": devices})
    else:
        print_attributes(devices)
    return PASSED
