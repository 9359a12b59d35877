"""`openipu doctor`: what of openipu works on this machine, and what to do about the rest.

In: nothing. Out: one line per check, or JSON; exit code 1 only if something essential is broken.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from rich.markup import escape

from openipu.cli.checks import Check, State, run_checks
from openipu.cli.terminal import make_table, open_console, print_json

_EPILOG = """\
examples
  openipu doctor
  openipu doctor --json
  openipu doctor --verify    small models, compared with the reference engine; exit code 1 on a difference

Exit code 1 means that an essential part is broken. What is optional and absent is only mentioned.
"""
_MARKS = {
    State.GOOD: "[green]ok[/]",
    State.ABSENT: "[yellow]--[/]",
    State.DOUBTFUL: "[yellow]![/]",
    State.BROKEN: "[bold red]broken[/]",
}


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "doctor",
        parents=[shared],
        allow_abbrev=False,
        help="check this installation",
        description="Check what of openipu works on this machine, and say what to do about the rest.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--verify",
        nargs="?",
        const="",
        metavar="FILE",
        help="compare small models with the reference engine on this machine; with FILE, run a reproducer again",
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.verify is not None:
        from openipu.cli.verified import verify_machine, verify_reproducer

        if arguments.verify:
            return verify_reproducer(Path(arguments.verify), as_json=arguments.json)
        return verify_machine(as_json=arguments.json)
    checks = run_checks()
    healthy = all(check.state is not State.BROKEN for check in checks)
    if arguments.json:
        print_json({"healthy": healthy, "checks": [dataclasses.asdict(check) for check in checks]})
    else:
        _print_checks(checks, healthy)
    return 0 if healthy else 1


def _print_checks(checks: tuple[Check, ...], healthy: bool) -> None:
    console = open_console()
    table = make_table()
    for heading in ("", "", ""):
        table.add_column(heading, overflow="fold")
    for check in checks:
        table.add_row(_MARKS[check.state], escape(check.name), escape(check.finding))
        if check.remedy:
            table.add_row("", "", f"[dim]→ {escape(check.remedy)}[/]")
    table.show_header = False
    console.print(table)
    if healthy:
        console.print("\nEverything essential works.")
    else:
        console.print("\n[bold red]Something essential is broken:[/] see the lines marked broken.")
