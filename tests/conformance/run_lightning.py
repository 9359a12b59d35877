"""Runs the public lightning-Graphcore test suite against ours, and writes its section of docs/conformance.md.

    OPENIPU_LIGHTNING_GRAPHCORE_CHECKOUT=path/to/lightning-Graphcore python tests/conformance/run_lightning.py [--page]

In: a checkout, which is only read: its `tests/` is copied to a temporary folder and run there. Out: the outcome of
every item, and exit code 1 if one fails without a reason in `lightning_misses.toml`. The suite asks for the original's
errors (strict mode), for IPUs as the default accelerator, and for reported hardware; all are switched on for it.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

CHECKOUT_VARIABLE = "OPENIPU_LIGHTNING_GRAPHCORE_CHECKOUT"
HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "conformance.md"
START, END = "<!-- lightning: made by tests/conformance/run_lightning.py -->", "<!-- end of lightning -->"
SWITCHES = {"OPENIPU_LIGHTNING_STRICT": "1", "OPENIPU_LIGHTNING_AUTO": "1", "OPENIPU_REPORT_HARDWARE": "1"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="renew the section of docs/conformance.md")
    parser.add_argument("--verbose", action="store_true", help="show pytest's own output")
    parser.add_argument("-k", dest="expression", default="", help="as pytest's -k")
    options = parser.parse_args()
    checkout = os.environ.get(CHECKOUT_VARIABLE)
    if not checkout or not (Path(checkout) / "tests" / "test_accelerator.py").is_file():
        print(f"Set {CHECKOUT_VARIABLE} to a checkout of Lightning-AI/lightning-Graphcore.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="lightning-suite-") as place:
        shutil.copytree(Path(checkout) / "tests", Path(place) / "tests")
        outcomes = run_suite(Path(place), options)
    misses: dict[str, str] = tomllib.loads((HERE / "lightning_misses.toml").read_text())["misses"]
    failed = {item: outcome for item, outcome in outcomes.items() if outcome != "passed"}
    for item, outcome in failed.items():
        print(f"{item}: {misses.get(item) or 'no known reason: ' + outcome}")
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} items pass")
    for item in misses:
        if item in outcomes and item not in failed:
            print(f"known miss that fails no more: {item}", file=sys.stderr)
    if options.page:
        PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), write_section(outcomes, misses)), "utf-8")
    return 1 if not outcomes or any(item not in misses for item in failed) else 0


def run_suite(place: Path, options: argparse.Namespace) -> dict[str, str]:
    """Outcome of each item as "file.py::item"."""
    report = place / "report.xml"
    environment = {**os.environ, **SWITCHES}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), str(place), environment.get("PYTHONPATH", "")])
    command = [
        sys.executable, "-m", "pytest", "-p", "lightning_shims", "-p", "no:cacheprovider", "-q", "-c", os.devnull,
        f"--rootdir={place}", f"--junitxml={report}", "--tb=short", "tests",
    ]  # fmt: skip
    if options.expression:
        command += ["-k", options.expression]
    subprocess.run(command, cwd=place, env=environment, stdout=None if options.verbose else subprocess.DEVNULL)
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.py::{case.get('name', '')}"
        problem = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        message = "" if problem is None else (problem.get("message") or "").strip().split("\n")[0][:200]
        outcomes[name] = "passed" if problem is None else f"{problem.tag}: {message}"
    return outcomes


def write_section(outcomes: dict[str, str], misses: dict[str, str]) -> str:
    failed = [item for item, outcome in outcomes.items() if outcome != "passed"]
    lines = [
        f"Counted on {datetime.date.today().isoformat()}: **{len(outcomes) - len(failed)} of {len(outcomes)} items "
        "pass**, among them those that the suite itself skips or expects to fail.",
        "",
        "| Item that fails | Reason |",
        "|---|---|",
        *(f"| `{item}` | {misses.get(item, 'not known yet: ' + outcomes[item])} |" for item in failed),
    ]
    return "\n".join(lines if failed else lines[:1])


def replace_section(page: str, text: str) -> str:
    """The page with new text between the two marks."""
    before, _, rest = page.partition(START)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"The page has no {START} … {END}.")
    return f"{before}{START}\n\n{text}\n\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
