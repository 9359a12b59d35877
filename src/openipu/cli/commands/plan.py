"""`openipu plan`: what an IPU would do with a model, from shapes alone.

In: functions that return planning jobs. Out: one table of all of them, the reasons of those that do not fit, and on
request JSON, profiles and HTML reports.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from openipu.cli.model_options import add_model_options, read_sizes
from openipu.cli.terminal import open_console, print_json
from openipu.errors import OptionError
from openipu.machine import System, resolve_system

if TYPE_CHECKING:
    from openipu.cli.planned import Planned
    from openipu.model_files import Sizes

_EPILOG = """\
examples
  openipu plan examples/plan_models.py:bert_base
  openipu plan --system pod16 models.py:small models.py:large     one table for all
  openipu plan --check --json package.models:job                  for a test: exit code 1 unless everything fits
  openipu plan --profile out models.py:large                      and a report to open
  openipu plan bert.onnx --input input_ids=8,128                  an ONNX file; its weights are not read
  openipu plan net.pdmodel --input image=8,3,224,224              a Paddle file, or net.json of its new form
  openipu plan model.keras --input image=8,224,224,3              a Keras file, or the folder of a SavedModel

TARGET is a model file, package.module:function or path/script.py:function. The function takes no arguments and
returns, of openipu.jobs,
  a PlanningJob(model=…, args=…, training=…, optimizer=…, options=…),
  or a tuple (model, args), or a dict of those fields.
The inputs are one micro-batch. Build the model under torch.device("meta"): no weights are needed.
"""
_OVERRIDES = ("device_iterations", "gradient_accumulation", "replicas", "available_memory_proportion")


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "plan",
        parents=[shared],
        help="cost and memory of a model, without weights and without running",
        description="Plan models on a system: does it fit, how many cycles, how many samples a second.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "targets", metavar="TARGET", nargs="+", help="module:function, script.py:function or a model file"
    )
    parser.add_argument("--system", metavar="NAME|FILE.toml", help="the machine to plan for")
    parser.add_argument("--profile", metavar="DIR", help="write profile.pop and report.html of each job under DIR")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="exit code 1 unless every job fits")
    parser.add_argument(
        "--advice-plans",
        type=int,
        metavar="N",
        help="how often to plan again what does not fit, with each lever; 0: not at all (150)",
    )
    parser.add_argument("--advice-seconds", type=float, metavar="S", help="begin no further such plan after this long")
    add_model_options(parser)
    group = parser.add_argument_group("run options, in place of the job's own")
    group.add_argument("--device-iterations", type=int, metavar="N", help="micro-batches or updates in one call")
    group.add_argument("--gradient-accumulation", type=int, metavar="N", help="micro-batches before an update")
    group.add_argument("--replicas", type=int, metavar="N", help="copies of the program")
    group.add_argument(
        "--available-memory-proportion", type=float, metavar="P", help="share of a tile for temporaries, 0 to 1"
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    system = resolve_system(arguments.system)
    changes = {name: getattr(arguments, name) for name in _OVERRIDES if getattr(arguments, name) is not None}
    sizes = read_sizes(arguments, *arguments.targets)
    console = open_console(stderr=True)
    planned: list[Planned] = []
    for target in arguments.targets:
        with _say(console.is_terminal, f"planning {target}") as tell:
            planned.append(_plan_target(target, system, changes, sizes))
            _advise(planned[-1], arguments, tell)
    _number_names(planned)
    if arguments.profile is not None:
        _write_reports(planned, Path(arguments.profile))

    from openipu.cli.planned import describe_planned, print_planned

    if arguments.json:
        print_json({"system": system.name, "modelled": True, "jobs": [describe_planned(entry) for entry in planned]})
    else:
        print_planned(planned, system)
    fits = all(entry.plan.fit.fits for entry in planned)
    return 1 if arguments.check and not fits else 0


def _plan_target(target: str, system: System, changes: dict[str, Any], sizes: Sizes) -> Planned:
    from openipu.cli.planned import Planned
    from openipu.cli.targets import load_job
    from openipu.jobs import run_job

    job = load_job(target, sizes)
    if changes:
        try:
            job = job.with_options(**changes)
        except OptionError as error:
            raise OptionError(f"{target}: {error}") from error
    started = time.perf_counter()
    plan = run_job(job, system)
    return Planned(target=target, name=job.title, job=job, plan=plan, seconds=time.perf_counter() - started)


def _advise(entry: Planned, arguments: argparse.Namespace, tell: Callable[[str], None]) -> None:
    """Plan again with each lever, where a job does not fit and nobody has forbidden it."""
    from openipu.explore.levers import MOST_PLANS, advise_job

    most_plans = MOST_PLANS if arguments.advice_plans is None else arguments.advice_plans
    if entry.plan.fit.fits or most_plans <= 0 or arguments.advice_seconds == 0:
        return
    entry.advice = advise_job(
        entry.job,
        entry.plan,
        most_plans=most_plans,
        seconds=arguments.advice_seconds,
        tell=lambda title: tell(f"planning {entry.target} again with {title}"),
    )


def _number_names(planned: list[Planned]) -> None:
    """Two jobs of one name must not share a row's name or a directory."""
    seen: dict[str, int] = {}
    for entry in planned:
        count = seen[entry.name] = seen.get(entry.name, 0) + 1
        if count > 1:
            entry.name = f"{entry.name}-{count}"


def _write_reports(planned: list[Planned], root: Path) -> None:
    from openipu.cli.planned import write_report

    for entry in planned:
        entry.report = write_report(entry.plan, root / entry.name, entry.advice)


@contextmanager
def _say(show: bool, text: str) -> Iterator[Callable[[str], None]]:
    """A moving line while something takes time, and a way to change it; nothing at all in a pipe."""
    if not show:
        yield lambda text: None
        return
    with open_console(stderr=True).status(escape(text)) as status:
        yield lambda text: status.update(escape(text))
