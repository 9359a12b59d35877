"""Prints the findings of a check, as a table or as JSON, and says whether anything is lacking."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from rich.markup import escape

from openipu.cli.terminal import make_table, open_console, print_json
from openipu.cli.usage.uses import Finding, State

_STYLES = {State.LACKS: "bold red", State.NO_EFFECT: "yellow", State.HAS: "green"}


def show_findings(findings: Sequence[Finding], *, failure: str | None, as_json: bool) -> None:
    """`failure` is how the script itself ended, if not well."""
    counts = Counter(finding.state for finding in findings)
    if as_json:
        print_json(
            {
                "lacking": counts[State.LACKS],
                "without_effect": counts[State.NO_EFFECT],
                "has": counts[State.HAS],
                "script_failed": failure,
                "names": [asdict(finding) for finding in findings],
            }
        )
        return
    console = open_console()
    table = make_table()
    for heading in ("name", "openipu", "where", "remark"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("name", "openipu"))
    for finding in findings:
        more = f" +{len(finding.places) - 1}" if len(finding.places) > 1 else ""
        reached = finding.ran or finding.state is State.HAS
        remark = finding.note if reached else "; ".join(filter(None, (finding.note, "not reached in this run")))
        table.add_row(
            escape(finding.name),
            f"[{_STYLES[finding.state]}]{finding.state}[/]",
            escape(_shorten(finding.places[0]) + more if finding.places else ""),
            escape(remark),
        )
    console.print(table)
    console.print(
        f"\n{counts[State.HAS]} names that openipu has, {counts[State.NO_EFFECT]} without effect here, "
        f"{counts[State.LACKS]} that it lacks."
    )
    if failure is not None:
        console.print(f"The script ended early ({escape(failure)}): what comes after was read, not run.")


def _shorten(place: str) -> str:
    relative = os.path.relpath(place)
    return place if relative.startswith("..") else relative
