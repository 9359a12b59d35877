"""`openipu auto`: the fastest split of a job over the IPUs of a system.

In: a function that returns a planning job. Out: stages, memory proportions, recomputation and micro-batch, as text or
JSON, and on request the report of that plan.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.padding import Padding

from openipu.cli.model_options import add_model_options, read_sizes
from openipu.cli.terminal import open_console, print_json
from openipu.machine import resolve_system

if TYPE_CHECKING:
    from openipu.explore.auto import Split

_EPILOG = """\
examples
  openipu auto models.py:bert_large --system pod16
  openipu auto models.py:bert_large --system pod16 --ipus-per-replica 4 --samples 16384 --micro-batch 8
  openipu auto models.py:bert_large --system pod16 --profile out       and a report to open
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "auto",
        parents=[shared],
        help="find the pipeline stages that fit and are fastest",
        description="Split a job over IPUs: stages, recomputation, memory proportions, micro-batch. All of it planned.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "target", metavar="TARGET", help="module:function, script.py:function or a model file, as for `openipu plan`"
    )
    parser.add_argument("--system", metavar="NAME|FILE.toml", help="the machine to plan for")
    parser.add_argument("--ipus-per-replica", type=int, metavar="N", help="IPUs of one copy; else whatever is fastest")
    parser.add_argument("--replicas", type=int, metavar="N", help="copies; else as many as there is room for")
    parser.add_argument("--samples", type=int, metavar="N", help="samples between two updates, or in one call")
    parser.add_argument(
        "--micro-batch", type=int, metavar="N", action="append", help="a size to choose from; may be given again"
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="take the best so far after this long, if one fits")
    parser.add_argument("--profile", metavar="DIR", help="write profile.pop and report.html of the plan under DIR")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="exit code 1 unless it fits")
    add_model_options(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    from openipu.cli.targets import load_job
    from openipu.explore.auto import find_split

    job = load_job(arguments.target, read_sizes(arguments, arguments.target))
    split = find_split(
        job,
        resolve_system(arguments.system),
        ipus_per_replica=arguments.ipus_per_replica,
        replicas=arguments.replicas,
        samples=arguments.samples,
        micro_batches=arguments.micro_batch,
        seconds=arguments.seconds,
    )
    report = None
    if arguments.profile is not None:
        from openipu.cli.planned import write_report

        report = write_report(split.plan, Path(arguments.profile) / job.title)
    if arguments.json:
        print_json({**_describe(split), "report": str(report) if report is not None else None})
    else:
        _print_split(job.title, split, report)
    return 1 if arguments.check and not split.fits else 0


def _describe(split: Split) -> dict[str, Any]:
    run, fit = split.options, split.plan.fit
    return {
        "fits": split.fits,
        "complete": split.complete,
        "shortage": None if split.shortage is None else dataclasses.asdict(split.shortage),
        "timed_out": split.timed_out,
        "system": split.plan.system.name,
        "samples_per_second": split.samples_per_second,
        "peak_tile_bytes": fit.peak_bytes,
        "limit_tile_bytes": fit.limit_bytes,
        "micro_batch": split.micro_batch,
        "gradient_accumulation": run.gradient_accumulation,
        "device_iterations": run.device_iterations,
        "replicas": run.replicas,
        "ipus_per_replica": split.ipus_per_replica,
        "memory_proportions": split.memory_proportions,
        "kept_for_backward": str(split.layout.keep),
        "optimizer_state": str(split.layout.state_home),
        "stages": [
            {"ipu": stage.ipu, "modules": [split.segments[index].module for index in stage.segments]}
            for stage in split.layout.stages
        ],
        "plans_made": split.plans_made,
        "seconds": split.seconds,
    }


def _print_split(title: str, split: Split, report: Path | None) -> None:
    from openipu.explore.auto.words import explain_misfit
    from openipu.report.units import format_bytes_of, format_rate, format_seconds

    console, fit = open_console(), split.plan.fit
    verdict = "[green]fits[/]" if split.fits else "[red]does not fit[/]"
    console.print(
        f"[bold]{escape(title)}[/] on {escape(split.plan.system.name)}: {verdict}, "
        f"{format_rate(split.samples_per_second)} samples/s, the fullest tile needs "
        f"{format_bytes_of(fit.peak_bytes, fit.limit_bytes)}; modelled"
    )
    for line in split.describe().splitlines():
        console.print(Padding(escape(line), (0, 0, 0, 2)))
    if not split.fits:
        for line in explain_misfit(split):
            console.print(Padding(escape(line), (0, 0, 0, 2)))
    console.print(f"  [dim]{split.plans_made} plans in {format_seconds(split.seconds)}[/]")
    if split.timed_out:
        console.print("  [yellow]The time was up: more of it may find a faster one.[/] --seconds gives more.")
    if report is not None:
        console.print(f"\nreport of {escape(title)}: {escape(str(report))}", soft_wrap=True)
