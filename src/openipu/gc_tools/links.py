"""`gc-links`: which IPUs are connected, by which link, at which rate."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from openipu.cli.terminal import format_quantity
from openipu.gc_tools.tables import Column, choose_width, draw_table
from openipu.gc_tools.tool import MODELLED, PASSED, look, make_parser, print_json, run_tool
from openipu.pod.links import Link, list_links


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser("gc-links", "Show the links between the IPUs of the virtual pod, as they are modelled.")
    return run_tool(parser, _execute, argv)


def _execute(arguments: argparse.Namespace) -> int:
    view = look(arguments.partition)
    partition = view.pod.partition
    chosen = {ipu.number for ipu in view.choose(arguments.device_id)}
    inside = range(partition.first, partition.first + len(view.ipus))
    links = [
        link
        for link in list_links(view.pod.description.system)
        if link.first in inside and link.second in inside and not chosen.isdisjoint((link.first, link.second))
    ]
    rows = [_describe(link, partition.first) for link in links]
    if arguments.json:
        print_json({"links": rows, "figures": MODELLED})
    elif not rows:
        print("No links between IPUs in this partition.")
    else:
        columns = [Column("device"), Column("device "), Column("link"), Column("one way, modelled"), Column("status")]
        rate = [format_quantity(link.bytes_per_second, "B/s") for link in links]
        cells = [
            [row["device0"], row["device1"], row["kind"], text, "described"]
            for row, text in zip(rows, rate, strict=True)
        ]
        print("\n".join(draw_table(columns, cells, choose_width())))
    return PASSED


def _describe(link: Link, first: int) -> dict[str, str]:
    return {
        "device0": str(link.first - first),
        "device1": str(link.second - first),
        "kind": link.kind,
        "bytes_per_second": f"{link.bytes_per_second:.0f}",
        "status": "described",
    }
