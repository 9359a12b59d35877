"""Runs ONNX's own backend node cases, op by op and through the pipeline, and writes its section of docs/conformance.md.

    python tests/conformance/run_onnx_nodes.py [--page] [-k TEXT]

In: the installed package onnx, which makes cases and expected results. Out: counts by reason, and exit code 1 if a case
fails without a reason in `onnx_misses.toml`. Inputs that decide shapes are constants of the program, as in
`openipu run`. Cases that need strings, sequences, optional values or quantised formats are counted, not run.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import sys
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from onnx_cases import OTHER_TYPES, Case, check, list_cases, run_pipeline, run_plainly  # noqa: E402

PAGE = HERE.parents[1] / "docs" / "conformance.md"
START, END = "<!-- onnx: made by tests/conformance/run_onnx_nodes.py -->", "<!-- end of onnx -->"
WAYS: dict[str, Callable[[Case], Mapping[str, object]]] = {"interpreted": run_plainly, "pipeline": run_pipeline}
Failures = dict[str, str]  # case -> message


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="renew the section of docs/conformance.md")
    parser.add_argument("-k", dest="text", default="", help="only cases whose name holds this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # those of the package that makes the data
    others: Counter[str] = Counter()
    failures: dict[str, Failures] = {way: {} for way in WAYS}
    considered = 0
    for case in list_cases():
        if options.text not in case.name:
            continue
        if case.other_type:
            others[case.other_type] += 1
            continue
        considered += 1
        for way, run in WAYS.items():
            problem = find_problem(case, run)
            if problem:
                failures[way][case.name] = problem
    misses = tomllib.loads((HERE / "onnx_misses.toml").read_text())
    lines = write_section(considered, others, failures, misses)
    print("\n".join(lines))
    unexplained = [
        f"{way}: {name}: {problem}"
        for way, found in failures.items()
        for name, problem in found.items()
        if find_reason(name, misses[way]) is None
    ]
    for line in unexplained:
        print(f"no known reason: {line}", file=sys.stderr)
    if not options.text:
        for way, patterns in misses.items():
            for pattern in patterns:
                if not any(fnmatch.fnmatchcase(name, pattern) for name in failures[way]):
                    print(f"known miss that fails no more: {way}: {pattern}", file=sys.stderr)
    if options.page:
        PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), "\n".join(lines)), "utf-8")
    return 1 if unexplained or not considered else 0


def find_problem(case: Case, run: Callable[[Case], Mapping[str, object]]) -> str:
    """Why a case fails; empty if it passes."""
    try:
        check(case, run(case))  # type: ignore[arg-type]
    except Exception as error:  # whatever it is, it is counted
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return ""


def find_reason(name: str, misses: Mapping[str, str]) -> str | None:
    return next((reason for pattern, reason in misses.items() if fnmatch.fnmatchcase(name, pattern)), None)


def write_section(
    considered: int, others: Counter[str], failures: Mapping[str, Failures], misses: Mapping[str, Mapping[str, str]]
) -> list[str]:
    kinds = ", ".join(f"{others[kind]} with {title}" for kind, title in OTHER_TYPES.items() if others[kind])
    lines = [
        f"Counted on {datetime.date.today().isoformat()} with {considered + others.total():,} node cases, of which "
        f"{considered:,} need tensors of numbers alone. Not run: {kinds or 'none'}.",
        "",
        "| Way | passed | failed | share |",
        "|---|---:|---:|---:|",
    ]
    for way, found in failures.items():
        passed = considered - len(found)
        share = passed / considered if considered else 0
        lines.append(f"| {way} | {passed:,} | {len(found)} | {share:.1%} |")
    lines += ["", "| Cases | Way | Reason | Such as |", "|---:|---|---|---|"]
    for way, found in failures.items():
        reasons: dict[str, list[str]] = {}
        for name, problem in found.items():
            reasons.setdefault(find_reason(name, misses[way]) or f"not known yet: {problem}", []).append(name)
        for reason, names in sorted(reasons.items(), key=lambda entry: -len(entry[1])):
            lines.append(f"| {len(names)} | {way} | {reason.replace('|', chr(92) + '|')} | `{names[0]}` |")
    return lines


def replace_section(page: str, text: str) -> str:
    """The page with new text between the two marks."""
    before, _, rest = page.partition(START)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"The page has no {START} … {END}.")
    return f"{before}{START}\n\n{text}\n\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
