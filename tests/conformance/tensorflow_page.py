"""Writes the section of docs/conformance.md about the public suites of TensorFlow on IPU.

    python tests/conformance/tensorflow_page.py outcomes.json [more.json …]

In: files of `run_tensorflow.py --json`; where two have counted the same file of a suite, the later one counts. Out: the
section, and exit code 1 if an item fails without a reason in `tensorflow_misses.toml`.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tensorflow_scope import PUBLIC

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "conformance.md"
START, END = "<!-- tensorflow: made by tests/conformance/tensorflow_page.py -->", "<!-- end of tensorflow -->"


@dataclass(frozen=True)
class Item:
    """One item: "file.py::Class::test", "passed" or what went wrong, and what its code uses."""

    suite: str
    name: str
    outcome: str
    uses: str

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]

    @property
    def skipped(self) -> bool:
        return self.outcome.startswith("skipped")

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    items = merge(read_items(path) for path in parser.parse_args().files)
    reasons = Reasons()
    for line in write_shares(items):
        print(line)
    PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), write_section(items, reasons)), "utf-8")
    unknown = [item for item in items if not item.skipped and not item.passed and not reasons.find(item)]
    for item in unknown:
        print(f"no known reason: {item.suite} {item.name}: {item.outcome}", file=sys.stderr)
    return 1 if unknown else 0


def read_items(path: Path) -> list[Item]:
    """What `save_items` has written; none where the file is not there yet."""
    return [Item(*entry) for entry in json.loads(path.read_text(encoding="utf-8"))] if path.is_file() else []


def save_items(path: Path, items: Sequence[Item]) -> None:
    rows = [[item.suite, item.name, item.outcome, item.uses] for item in items]
    path.write_text(json.dumps(rows, indent=0), encoding="utf-8")


def merge(parts: Iterable[Sequence[Item]]) -> list[Item]:
    """All items; of a file that was counted again, the later ones."""
    found: dict[tuple[str, str], list[Item]] = {}
    for part in parts:
        again: dict[tuple[str, str], list[Item]] = {}
        for item in part:
            again.setdefault((item.suite, item.file), []).append(item)
        found |= again
    return [item for key in sorted(found) for item in found[key]]


def renew(kept: Sequence[Item], found: Sequence[Item]) -> list[Item]:
    """What was kept, with single items as they were found again."""
    again = {(item.suite, item.name): item for item in found}
    return [again.pop((item.suite, item.name), item) for item in kept] + list(again.values())


class Reasons:
    """Why items fail: by a pattern of their names, or by the words of their errors."""

    def __init__(self) -> None:
        self._table = tomllib.loads((HERE / "tensorflow_misses.toml").read_text(encoding="utf-8"))

    def find(self, item: Item) -> str:
        for entry in self._table["items"]:
            if fnmatch.fnmatchcase(item.name, entry["pattern"]) and item.suite in entry.get("suites", [item.suite]):
                return str(entry["reason"])
        worded = (entry for entry in self._table["errors"] if any(word in item.outcome for word in entry["words"]))
        return str(next(worded, {"reason": ""})["reason"])


def write_shares(items: Sequence[Item]) -> list[str]:
    """How many pass, for each suite and for all."""
    suites = list(dict.fromkeys(item.suite for item in items))
    lines = []
    for suite in [*suites, *(["all"] if len(suites) > 1 else [])]:
        ran = [item for item in items if not item.skipped and suite in ("all", item.suite)]
        own = [item for item in ran if item.uses == PUBLIC]
        lines.append(f"{suite}: {_share(own)} of {PUBLIC}; {_share(ran)} of all that run")
    return lines


def _share(items: Sequence[Item]) -> str:
    passed = sum(item.passed for item in items)
    return f"{passed} of {len(items)} ({100 * passed / max(1, len(items)):.1f} %)"


def write_section(items: Sequence[Item], reasons: Reasons) -> str:
    ran = [item for item in items if not item.skipped]
    files = {(item.suite, item.file) for item in items}
    lines = [
        f"Counted on {datetime.date.today().isoformat()}, {len(files)} files. What an item uses is told from its code, "
        "whatever its outcome (`tests/conformance/tensorflow_scope.py`). Items that skip themselves are not counted.",
        "",
        "| Suite | What an item uses | Items | pass | |",
        "|---|---|--:|--:|--:|",
    ]
    for suite in dict.fromkeys(item.suite for item in items):
        kinds = sorted({item.uses for item in ran if item.suite == suite}, key=lambda kind: (kind != PUBLIC, kind))
        for kind in kinds:
            own = [item for item in ran if item.suite == suite and item.uses == kind]
            passed = sum(item.passed for item in own)
            lines.append(f"| {suite} | {kind} | {len(own)} | {passed} | {100 * passed / len(own):.1f} % |")
    for suite in dict.fromkeys(item.suite for item in items):
        names = sorted(file.removesuffix("_test.py") for own, file in files if own == suite)
        lines += ["", f"Files of {suite} that are counted, without their `_test.py`: {', '.join(names)}."]
    for title, chosen in (
        ("Items that use the public interface alone, and fail", [item for item in ran if item.uses == PUBLIC]),
        ("Other items that fail", [item for item in ran if item.uses != PUBLIC]),
    ):
        failed = [item for item in chosen if not item.passed]
        if not failed:
            continue
        known = {item: reasons.find(item) or "not known yet" for item in failed}
        examples = {reason: item for item, reason in reversed(known.items())}
        lines += ["", f"| {title} | Reason | For example |", "|--:|---|---|"]
        counts = Counter(known.values()).most_common()
        lines += [f"| {count} | {reason} | `{examples[reason].name}` |" for reason, count in counts]
    return "\n".join(lines)


def replace_section(page: str, text: str) -> str:
    """The page with new text between the two marks."""
    before, _, rest = page.partition(START)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"The page has no {START} … {END}.")
    return f"{before}{START}\n\n{text}\n\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
