"""`openipu sweep`: one job over many machines, batches and settings.

In: a function that returns a planning job, and what to vary. Out: a table, and on request CSV, JSON and a picture of
throughput against memory.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from openipu.cli.model_options import add_model_options, read_sizes
from openipu.cli.terminal import make_table, open_console, print_json
from openipu.errors import OptionError
from openipu.files.saving import save_text, write_aside
from openipu.machine import resolve_system

if TYPE_CHECKING:
    from openipu.explore.sweep import Axis, Row

_EPILOG = """\
examples
  openipu sweep models.py:bert system=pod16,bow-pod16 batch=1..8
  openipu sweep models.py:bert ipus=1..256 --system bow-pod16             copies on more and more IPUs
  openipu sweep models.py:bert batch=1..16 proportion=0.6,0.3,0.1 --csv out.csv --picture out.svg
  openipu sweep models.py:bert target.tile_memory_bytes=638976,1277952    a chip with twice the memory

AXIS is NAME=VALUE,VALUE,… or NAME=FIRST..LAST, which doubles. Names: system, ipus, batch (samples in a micro-batch),
accumulation, iterations, replicas, proportion, and every figure as target.NAME, system.NAME or options.NAME.
All combinations are planned. A plan that was made before comes from the cache.
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "sweep",
        parents=[shared],
        help="plan one job for many machines, batches and settings",
        description="Plan a job for all combinations of some values; mark those that nothing else beats.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "target", metavar="TARGET", help="module:function, script.py:function or a model file, as for `openipu plan`"
    )
    parser.add_argument("axes", metavar="AXIS", nargs="+", help="what to vary: batch=1,2,4")
    parser.add_argument("--system", metavar="NAME|FILE.toml", help="the machine, where no axis says another")
    parser.add_argument("--processes", type=int, metavar="N", help="how many plan side by side; one for each core")
    parser.add_argument("--no-cache", action="store_true", help="plan everything anew, and keep nothing")
    parser.add_argument("--csv", metavar="FILE", help="write all rows as CSV")
    parser.add_argument("--picture", metavar="FILE.svg", help="draw throughput against memory")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_model_options(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    from openipu.cli.targets import load_job
    from openipu.explore.sweep import draw_front, list_points, parse_axis, plan_points

    picture = Path(arguments.picture) if arguments.picture else None
    if picture is not None and picture.suffix.lower() != ".svg":
        raise OptionError(f"--picture {picture}: the picture is an SVG file. Let its name end in .svg.")
    axes = [parse_axis(words) for words in arguments.axes]
    points = list_points(axes)
    load = partial(load_job, arguments.target, read_sizes(arguments, arguments.target))
    title = load().title  # also says at once if the target is wrong
    rows = plan_points(
        load,
        points,
        resolve_system(arguments.system),
        processes=arguments.processes,
        cache=not arguments.no_cache,
    )
    if arguments.csv:
        _write_csv(rows, Path(arguments.csv))
    if picture is not None:
        save_text(picture, draw_front(rows, f"{title}: throughput against memory"))
    if arguments.json:
        print_json({"job": title, "modelled": True, "rows": [row.describe() for row in rows]})
    else:
        _print_rows(title, axes, rows)
    return 0 if any(row.samples_per_second > 0 for row in rows) else 1


def _write_csv(rows: Sequence[Row], path: Path) -> None:
    described = [row.describe() for row in rows]
    with write_aside(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(described[0]))
        writer.writeheader()
        writer.writerows(described)


def _print_rows(title: str, axes: Sequence[Axis], rows: Sequence[Row]) -> None:
    from openipu.explore.sweep import find_front
    from openipu.report.units import format_rate, format_seconds

    console = open_console()
    front = find_front(rows)
    console.print(f"[bold]{escape(title)}[/]  {len(rows)} points; modelled. * nothing else is faster and smaller\n")
    table = make_table()
    table.add_column("")
    for axis in axes:
        table.add_column(axis.name, justify="right")
    table.add_column("fits")
    for heading in ("peak tile KiB", "samples/s", "per IPU", "IPUs", "time/call", "planned in"):
        table.add_column(heading, justify="right")
    for row in rows:
        values = [escape(f"{value:g}" if isinstance(value, float) else str(value)) for _, value in row.point.values]
        mark = "*" if row in front else ""
        if row.problem and not row.samples_per_second:
            table.add_row(mark, *values, "[red]-[/]")
            continue
        table.add_row(
            mark,
            *values,
            "[green]yes[/]" if row.fits else "[red]no[/]",
            f"{row.peak_tile_bytes / 1024:.0f} of {row.limit_tile_bytes / 1024:.0f}",
            format_rate(row.samples_per_second),
            format_rate(row.samples_per_second / row.ipus if row.ipus else 0.0),
            str(row.ipus),
            format_seconds(row.call_seconds),
            "cache" if row.cached else format_seconds(row.seconds),
        )
    console.print(table)
    for row in rows:
        if row.problem:
            console.print(f"{escape(row.point.describe())}: {escape(row.problem)}", soft_wrap=True)
