"""Runs the public IPU tests of PaddlePaddle against ours, and writes their section of docs/conformance.md.

    OPENIPU_PADDLE_CHECKOUT=path/to/Paddle .venv-paddle/bin/python tests/conformance/run_paddle.py [--page]

In: a checkout, which is only read: `test/ipu` is copied to a temporary folder and run there, a few files to a process.
Out: the outcome of every item, and exit code 1 if one fails without a reason in `paddle_misses.toml`. Left out are
`custom_ops` (C++ against PopART), `distributed` (several hosts) and `test_modelruntime_ipu.py` (another runtime).
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
from collections import Counter
from pathlib import Path

CHECKOUT_VARIABLE = "OPENIPU_PADDLE_CHECKOUT"
HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "conformance.md"
START, END = "<!-- paddle: made by tests/conformance/run_paddle.py -->", "<!-- end of paddle -->"
LEFT_OUT = ("test_modelruntime_ipu.py",)
FILES_OF_A_PROCESS = 12
LONGEST_SECONDS = 1800


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="renew the section of docs/conformance.md")
    parser.add_argument("--verbose", action="store_true", help="show pytest's own output")
    parser.add_argument("files", nargs="*", help="parts of file names; none: all")
    options = parser.parse_args()
    checkout = Path(os.environ.get(CHECKOUT_VARIABLE, "")) / "test" / "ipu"
    if not os.environ.get(CHECKOUT_VARIABLE) or not (checkout / "op_test_ipu.py").is_file():
        print(f"Set {CHECKOUT_VARIABLE} to a checkout of PaddlePaddle/Paddle of 2024.", file=sys.stderr)
        return 2
    outcomes: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="paddle-suite-") as place:
        suite = Path(place) / "ipu"
        shutil.copytree(checkout, suite)
        files = sorted(path.name for path in suite.glob("test_*.py") if path.name not in LEFT_OUT)
        chosen = [name for name in files if not options.files or any(part in name for part in options.files)]
        for start in range(0, len(chosen), FILES_OF_A_PROCESS):
            outcomes |= run_files(suite, chosen[start : start + FILES_OF_A_PROCESS], options.verbose)
    ran = {item: outcome for item, outcome in outcomes.items() if not outcome.startswith("skipped")}
    failed = {item: outcome for item, outcome in ran.items() if outcome != "passed"}
    misses: dict[str, str] = tomllib.loads((HERE / "paddle_misses.toml").read_text())["misses"]
    for item, outcome in failed.items():
        print(f"{item}: {misses.get(item) or 'no known reason: ' + outcome}")
    print(f"{len(ran) - len(failed)} of {len(ran)} items that run pass; {len(outcomes) - len(ran)} skip themselves")
    for item in misses:
        if item in outcomes and item not in failed:
            print(f"known miss that fails no more: {item}", file=sys.stderr)
    if options.page:
        text = write_section(ran, failed, len(outcomes) - len(ran), misses)
        PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), text), "utf-8")
    return 1 if not ran or any(item not in misses for item in failed) else 0


def run_files(suite: Path, files: list[str], verbose: bool) -> dict[str, str]:
    """Outcome of each item as "file.py::Class::item"."""
    report = suite / "report.xml"
    report.unlink(missing_ok=True)
    environment = {**os.environ, "OPENIPU_ENGINE": "operators", "PYTHONPATH": f"{HERE}{os.pathsep}{suite}"}
    command = [
        sys.executable, "-m", "pytest", "-p", "paddle_shims", "-p", "no:cacheprovider", "-q", "-c", os.devnull,
        f"--rootdir={suite}", f"--junitxml={report}", "--tb=short", "-p", "no:warnings", *files,
    ]  # fmt: skip
    try:
        silent = None if verbose else subprocess.DEVNULL
        subprocess.run(command, cwd=suite, env=environment, timeout=LONGEST_SECONDS, stdout=silent, stderr=silent)
    except subprocess.TimeoutExpired:
        return {f"{name}::all": f"failed: more than {LONGEST_SECONDS} s" for name in files}
    if not report.is_file():
        return {f"{name}::all": "failed: the process died" for name in files}
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        parts = case.get("classname", "").split(".")
        name = f"{parts[0]}.py::{'::'.join([*parts[1:], case.get('name', '')])}"
        problem = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        message = "" if problem is None else (problem.get("message") or "").strip().split("\n")[0][:200]
        outcomes[name] = "passed" if problem is None else f"{problem.tag}: {message}"
    return outcomes


def write_section(ran: dict[str, str], failed: dict[str, str], skipped: int, misses: dict[str, str]) -> str:
    reasons: dict[str, list[str]] = {}
    for item, outcome in failed.items():
        reasons.setdefault(misses.get(item, f"not known yet: {outcome}"), []).append(item)
    order = Counter({reason: len(items) for reason, items in reasons.items()}).most_common()
    lines = [
        f"Counted on {datetime.date.today().isoformat()}: **{len(ran) - len(failed)} of {len(ran)} items that run "
        f"pass**; {skipped} more skip themselves.",
        "",
        "| Items | Reason | For example |",
        "|--:|---|---|",
        *(f"| {count} | {reason} | `{reasons[reason][0]}` |" for reason, count in order),
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
