"""`openipu garden report`: the profile and the web page of a family's plan."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.markup import escape

from openipu.cli.planned import write_report
from openipu.cli.terminal import open_console, print_json
from openipu.plan import Plan
from openipu.validation.workloads import plan_row
from openipu_garden.family import Family
from openipu_garden.figures import choose_rows
from openipu_garden.registry import find_family
from openipu_garden.training import begin_course


def execute(arguments: argparse.Namespace) -> int:
    family = find_family(arguments.name)
    console = open_console(stderr=True)
    if console.is_terminal:
        with console.status(escape(f"planning {family.title}")):
            plan, what = _plan(family, arguments)
    else:
        plan, what = _plan(family, arguments)
    folder = Path(arguments.output or "garden-report") / family.name
    page = write_report(plan, folder)
    if arguments.json:
        print_json({"name": family.name, "plan": what, "fits": plan.fit.fits, "report": str(page)})
    else:
        open_console().print(f"report of {escape(family.title)} ({escape(what)}): {escape(str(page))}", soft_wrap=True)
    return 0


def _plan(family: Family, arguments: argparse.Namespace) -> tuple[Plan, str]:
    if not arguments.small:
        row = choose_rows(family, arguments.system)[0]
        return plan_row(row), f"{row.workload} on {row.system}"
    course = begin_course(family)
    try:
        return course.plan(), "the small version"
    finally:
        course.close()
