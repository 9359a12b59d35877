"""`python -m bench`: measure, print the tables, keep the results, renew the page."""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from bench.cells import EAGER, OPENIPU, VARIANTS, VECTORS, WAYS
from bench.figures import Figures
from bench.models import MODELS
from bench.page import print_tables, write_page
from bench.plan import RunPlan
from bench.processes import WorkerProcess
from bench.sections import SECTIONS
from bench.store import RESULTS, Store
from bench.tables import list_failures, make_tables
from bench.turns import Budget

QUICK_MODELS = ("cnn", "bert_small")
QUICK_VARIANTS = ("training-float32-1", "inference-float32-1")
QUICK_WAYS = (EAGER.name, OPENIPU.name)


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Time models in eager PyTorch, torch.compile and openipu, in turns. Results are merged into one "
        "JSON file, so that sections can be measured one by one.",
    )
    parser.add_argument("--section", nargs="+", choices=tuple(SECTIONS), help="only these sections; default: all")
    parser.add_argument("--models", nargs="+", choices=tuple(MODELS), help="only these models; default: all")
    parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), help="only these ways; default: all")
    parser.add_argument(
        "--variants", nargs="+", choices=tuple(VARIANTS), help="only these variants of the steps; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="small models, eager and openipu, one minute")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each way, at most (default: %(default)s)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=30.0,
        help="of turns for each model and variant, once five rounds are done (default: %(default)s)",
    )
    parser.add_argument("--json", type=Path, default=RESULTS, help="the results file (default: bench/results.json)")
    parser.add_argument("--continue", dest="resume", action="store_true", help="leave out what the file has already")
    parser.add_argument("--show", action="store_true", help="measure nothing: print the tables of the results file")
    parser.add_argument("--update-docs", action="store_true", help="renew the tables of docs/performance.md")
    parser.add_argument("--cache", type=Path, help="keep compiled code here; default: a directory that is removed")
    parser.add_argument("--logs", type=Path, help="keep what the processes print here; default: beside the cache")
    parser.add_argument(
        "--vectors",
        choices=tuple(VECTORS),
        help="let every way but ONNX Runtime use no more than these vectors, as on an older processor; give --json a "
        "file of its own",
    )
    parsed = parser.parse_args(arguments)
    if parsed.rounds < 1:
        parser.error("--rounds must be at least 1")
    if parsed.vectors and (parsed.json == RESULTS or parsed.update_docs):
        parser.error("--vectors needs a results file of its own (--json), and is not for the page")
    return parsed


def make_plan(arguments: argparse.Namespace, store: Store, scratch: Path) -> RunPlan:
    """What the command line asks for."""
    quick = arguments.quick
    cache = arguments.cache or scratch / "cache"
    return RunPlan(
        store=store,
        cache=cache.absolute(),
        logs=(arguments.logs or scratch / "logs").absolute(),
        models=tuple(arguments.models or (QUICK_MODELS if quick else MODELS)),
        ways=tuple(arguments.ways or (QUICK_WAYS if quick else WAYS)),
        variants=tuple(arguments.variants or (QUICK_VARIANTS if quick else VARIANTS)),
        budget=Budget(arguments.rounds, min(arguments.rounds, 5), 10.0 if quick else arguments.seconds),
        resume=arguments.resume,
        say=lambda text: print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True),
    )


def describe_host(plan: RunPlan) -> dict[str, str | int | float]:
    """The machine and the versions of this run."""
    environment = EAGER.make_environment(plan.cache)
    with WorkerProcess("bench.work.counting:HostMeter", environment, plan.logs / "host.log") as meter:
        return {
            **meter.call("describe"),
            **meter.call("measure"),
            "openipu": metadata.version("openipu"),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }


def main() -> None:
    arguments = parse_arguments()
    if arguments.vectors:
        os.environ.update(VECTORS[arguments.vectors])  # every process inherits them
    store = Store(arguments.json)
    if not arguments.show:
        with tempfile.TemporaryDirectory(prefix="openipu-bench-") as directory:
            plan = make_plan(arguments, store, Path(directory))
            store.values["machine"] = describe_host(plan)
            store.write()
            for name in arguments.section or (("steps",) if arguments.quick else SECTIONS):
                SECTIONS[name](plan)
    figures = Figures(store)
    tables = make_tables(figures)
    machine = store.values.get("machine", {})
    print_tables(tables, machine)
    for failure in list_failures(figures):
        print(f"not measured: {failure}")
    if arguments.update_docs:
        write_page(tables, machine)


if __name__ == "__main__":
    main()
