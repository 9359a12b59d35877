"""A pytest plugin that writes the outcome of every item as it comes, and the reader of what it wrote.

In: `OPENIPU_OUTCOMES`, the file to write to, a line of JSON for each. Out: of a file that did not end, the outcomes
that it came to; items without one were collected and not reached. An item's name is "Class::test".
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

VARIABLE = "OPENIPU_OUTCOMES"
NOT_REACHED = ""


def pytest_collection_finish(session: Any) -> None:
    for item in session.items:
        _write(_name(item.nodeid), NOT_REACHED)


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _write("", f"error: {find_error(str(report.longrepr))}")


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or not report.passed:
        _write(_name(report.nodeid), _describe(report))


def read_outcomes(place: Path) -> dict[str, str]:
    """Outcomes by name; one without a name where the file could not be imported. Of an item that failed and could not
    be cleared away either, the first."""
    outcomes: dict[str, str] = {}
    for line in place.read_text(encoding="utf-8").splitlines() if place.is_file() else []:
        name, outcome = json.loads(line)
        if name not in outcomes or outcomes[name] in (NOT_REACHED, "passed"):
            outcomes[name] = outcome
    return outcomes


def find_error(text: str) -> str:
    """The error of an import, in a line of pytest's account of it."""
    errors = [line[2:].strip() for line in text.splitlines() if line.startswith("E ")]
    return next((line for line in errors if "Error" in line), "collection failure")[:200]


def _describe(report: Any) -> str:
    if report.passed:
        return "passed"
    if report.skipped:
        kind, message = "skipped", str(report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr)
    else:
        crash = getattr(report.longrepr, "reprcrash", None)
        kind = "failure" if report.when == "call" else "error"
        message = str(crash.message if crash is not None else report.longrepr)
    return f"{kind}: {message.strip().partition(chr(10))[0][:200]}"


def _name(node: str) -> str:
    return node.partition("::")[2]


def _write(name: str, outcome: str) -> None:
    with open(os.environ[VARIABLE], "a", encoding="utf-8") as stream:
        stream.write(json.dumps([name, outcome]) + "\n")
