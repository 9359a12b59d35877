"""Turns the outcomes of the public PopTorch suite into docs/conformance.md.

    python tests/conformance/run.py --json plain.json
    python tests/conformance/run.py --hardware --json hardware.json
    python tests/conformance/summary.py plain.json hardware.json [--examples examples.json] [--page docs/conformance.md]

In: two files of `run.py --json`, without and with reported hardware, that of `run_examples.py --json` if given, and
`known_misses.toml` beside this file. Out: the page, and exit code 1 if an item fails without a known reason.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "conformance.md"
MISSES = HERE / "known_misses.toml"
START, END = "<!-- counts: made by tests/conformance/summary.py -->", "<!-- end of counts -->"

WORDS = ("passed", "failed", "skipped")
Outcomes = Mapping[str, Mapping[str, str]]  # file -> item -> "passed", "skipped: …" or "failed: …"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plain", type=Path, help="outcomes without hardware")
    parser.add_argument("hardware", type=Path, help="outcomes with --hardware")
    parser.add_argument("--examples", type=Path, help="outcomes of run_examples.py")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    plain, hardware = (json.loads(path.read_text()) for path in (options.plain, options.hardware))
    misses = tomllib.loads(MISSES.read_text())["misses"]
    examples = json.loads(options.examples.read_text()) if options.examples else []
    text = "\n".join(
        [
            *write_counts(plain, hardware),
            *write_examples(examples),
            *write_misses(plain, hardware, misses),
        ]
    )
    page = options.page.read_text(encoding="utf-8")
    options.page.write_text(replace_counts(page, text), encoding="utf-8")
    unexplained = [item for outcomes in (plain, hardware) for item in list_unexplained(outcomes, misses)]
    for item in unexplained:
        print(f"no known reason: {item}", file=sys.stderr)
    failing = [item for outcomes in (plain, hardware) for item, _ in list_failures(outcomes)]
    for pattern in misses:
        if not any(matches(item, pattern) for item in failing):
            print(f"known miss that fails no more: {pattern}", file=sys.stderr)
    return 1 if unexplained else 0


def replace_counts(page: str, text: str) -> str:
    """The page with new text between its two marks."""
    before, _, rest = page.partition(START)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"The page has no {START} … {END}.")
    return f"{before}{START}\n\n{text}\n{END}{after}"


def count(items: Mapping[str, str]) -> Counter[str]:
    return Counter(outcome.partition(":")[0] for outcome in items.values())


def total(outcomes: Outcomes) -> Counter[str]:
    return sum((count(items) for items in outcomes.values()), Counter())


def write_counts(plain: Outcomes, hardware: Outcomes) -> Iterator[str]:
    yield f"Counted on {datetime.date.today().isoformat()}. Skips are the suite's own, or wait for hardware.\n"
    for title, counts in (("without hardware", total(plain)), ("with reported hardware", total(hardware))):
        ran = counts["passed"] + counts["failed"]
        share = counts["passed"] / ran if ran else 0
        yield f"- **{title}:** {counts['passed']:,} of {ran:,} items pass ({share:.1%}), {counts['skipped']:,} skipped"
    yield ""
    yield "| File | passed | failed | skipped | passed with hardware | failed | skipped |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name in sorted({*plain, *hardware}):
        cells = [
            counts[word] for counts in (count(plain.get(name, {})), count(hardware.get(name, {}))) for word in WORDS
        ]
        yield f"| {name} | {' | '.join(map(str, cells))} |"
    yield ""


def write_examples(examples: list[Mapping[str, object]]) -> Iterator[str]:
    if not examples:
        return
    yield "## Example programs\n"
    yield "| Program | |"
    yield "|---|---|"
    for entry in examples:
        yield f"| {entry['name']} | {'passes' if entry['passed'] else 'fails: ' + str(entry['detail'])} |"
    yield ""


def write_misses(plain: Outcomes, hardware: Outcomes, misses: Mapping[str, str]) -> Iterator[str]:
    """Each reason once, with the number of items behind it."""
    reasons: dict[str, set[str]] = {}
    for outcomes in (plain, hardware):
        for item, message in list_failures(outcomes):
            reasons.setdefault(find_reason(item, misses) or f"not known yet: {message}", set()).add(item)
    yield "## What fails, and why\n"
    if not reasons:
        yield "Nothing."
        return
    yield "| Items | Reason | Where |"
    yield "|---:|---|---|"
    for reason, items in sorted(reasons.items(), key=lambda entry: -len(entry[1])):
        tests = sorted({item.partition("[")[0] for item in items})
        shown = ", ".join(f"`{test}`" for test in tests[:3]) + (f" and {len(tests) - 3} more" if len(tests) > 3 else "")
        yield f"| {len(items)} | {reason.replace('|', chr(92) + '|')} | {shown} |"
    yield ""


def list_failures(outcomes: Outcomes) -> Iterator[tuple[str, str]]:
    """Item as "file.py::test[parameters]", and its message."""
    for name, items in outcomes.items():
        for item, outcome in items.items():
            if outcome.startswith("failed"):
                yield f"{name}::{item}", outcome.partition(":")[2].strip()


def list_unexplained(outcomes: Outcomes, misses: Mapping[str, str]) -> Iterator[str]:
    return (item for item, _ in list_failures(outcomes) if find_reason(item, misses) is None)


def find_reason(item: str, misses: Mapping[str, str]) -> str | None:
    return next((reason for pattern, reason in misses.items() if matches(item, pattern)), None)


def matches(item: str, pattern: str) -> bool:
    """As in a shell, but brackets are part of the names of items, not sets of letters."""
    return fnmatch.fnmatchcase(item, pattern.replace("[", "[[]"))


if __name__ == "__main__":
    sys.exit(main())
