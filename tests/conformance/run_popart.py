"""Runs the public PopART integration suite against ours, and writes its section of docs/conformance.md.

    OPENIPU_POPART_CHECKOUT=path/to/popart python tests/conformance/run_popart.py [--page] [FILE …]

In: a checkout, which is only read: its `tests/` is copied to a temporary folder and run there, a process a file, with a
time limit. Out: the outcome of every item as JSON, and exit code 1 if one fails without a reason in
`popart_misses.toml`. FILE is a part of a path under tests/integration, such as operators_test/conv. Items are
counted by what their code uses (`popart_scope.py`): the public interface alone, or more.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: a process with threads is not forked

import popart_shims  # noqa: F401
import pytest
from popart_devices import CPU, read_devices
from popart_scope import PUBLIC, classify, classify_item

import openipu.session  # noqa: F401
import popart.session  # noqa: F401

CHECKOUT_VARIABLE = "OPENIPU_POPART_CHECKOUT"
HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "conformance.md"
START, END = "<!-- popart: made by tests/conformance/run_popart.py -->", "<!-- end of popart -->"
ELSEWHERE = ("popxl",)  # folders that are another interface's


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="parts of paths; none: all files")
    parser.add_argument("--page", action="store_true", help="renew the section of docs/conformance.md")
    parser.add_argument("--json", type=Path, default=Path("popart_outcomes.json"), help="where outcomes go")
    parser.add_argument("--limit", type=int, default=300, help="seconds for one file")
    parser.add_argument("--verbose", action="store_true", help="show pytest's own output")
    parser.add_argument("-k", dest="expression", default="", help="as pytest's -k")
    options = parser.parse_args()
    checkout = os.environ.get(CHECKOUT_VARIABLE)
    if not checkout or not (Path(checkout) / "tests" / "integration" / "test_util.py").is_file():
        print(f"Set {CHECKOUT_VARIABLE} to a checkout of graphcore/popart.", file=sys.stderr)
        return 2
    rules = tomllib.loads((HERE / "popart_misses.toml").read_text(encoding="utf-8"))
    before = json.loads(options.json.read_text()) if options.files and options.json.is_file() else {}
    outcomes: dict[str, str] = {}
    for one in run_files(Path(checkout) / "tests", options, rules["left_out"]):
        outcomes |= one
        again = {item.partition("::")[0] for item in one}
        before = {item: outcome for item, outcome in before.items() if item.partition("::")[0] not in again}
        options.json.write_text(json.dumps({**before, **outcomes}, indent=1))
    failed = {item: outcome for item, outcome in outcomes.items() if outcome not in ("passed", "skipped")}
    unknown = [item for item in failed if find_reason(item, rules["misses"]) is None]
    for item in unknown:
        print(f"{item}: {outcomes[item]}")
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} items pass; {len(unknown)} fail without a known reason")
    everything = {**before, **outcomes}
    kinds = list_kinds(everything, Path(checkout) / "tests" / "integration")
    print(write_share(everything, kinds))
    if options.page:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(replace_section(text, write_section(everything, kinds, rules)), encoding="utf-8")
    return 1 if not outcomes or unknown else 0


def run_files(tests: Path, options: argparse.Namespace, left_out: dict[str, str]) -> Iterator[dict[str, str]]:
    """File by file the outcome of each item as "folder/file.py::item"."""
    with tempfile.TemporaryDirectory(prefix="popart-suite-") as place:
        copied = Path(place) / "tests"
        shutil.copytree(tests, copied, ignore=shutil.ignore_patterns("*.cpp", "popxl"))
        devices = read_devices(copied / "integration")
        for file in list_files(copied / "integration", options.files, left_out):
            device = devices.get(file.relative_to(copied / "integration").as_posix(), CPU)
            one = run_file(file, copied, options, device)
            yield one
            counts = Counter(outcome.split(":")[0] for outcome in one.values())
            shown = ", ".join(f"{number} {word}" for word, number in counts.items())
            print(f"{file.relative_to(copied / 'integration')}: {shown}", flush=True)


def list_files(root: Path, wanted: list[str], left_out: dict[str, str]) -> list[Path]:
    files = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.split("/")[0] in ELSEWHERE or any(fnmatch.fnmatch(name, pattern) for pattern in left_out):
            continue
        if "def test_" in path.read_text(encoding="utf-8") and (not wanted or any(part in name for part in wanted)):
            files.append(path)
    return files


def run_file(file: Path, tests: Path, options: argparse.Namespace, device: str) -> dict[str, str]:
    """Outcomes of one file, from a process that is forked off: what all files import is imported once."""
    report, output = tests / "report.xml", tests / "output.txt"
    report.unlink(missing_ok=True)
    name = file.relative_to(tests / "integration").as_posix()
    command = [
        "-p", "popart_shims", "-p", "no:cacheprovider", "-q", "-c", os.devnull,
        f"--rootdir={tests}", f"--junitxml={report}", "--tb=short", "-W", "ignore",
        f"--device-type={device}", str(file),
    ]  # fmt: skip
    if options.expression:
        command += ["-k", options.expression]
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _run_tests(file, tests / "integration", command, None if options.verbose else output)
    code = _wait(child, options.limit)
    if code is None:
        return {f"{name}::whole file": f"timeout: more than {options.limit} s"}
    if not report.is_file():
        last = output.read_text(errors="replace").strip().splitlines()[-1:] if output.is_file() else []
        return {f"{name}::whole file": f"crash: exit code {code} {last}"}
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        problem = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        message = "" if problem is None else " ".join((problem.get("message") or "").split())[:300]
        kind = "passed" if problem is None else problem.tag
        title = "whole file" if message == "collection failure" else case.get("name", "")
        outcomes[f"{name}::{title}"] = kind if kind in ("passed", "skipped") else f"{kind}: {message}"
    return outcomes


def _run_tests(file: Path, root: Path, command: list[str], output: Path | None) -> NoReturn:
    """The child's part."""
    code = 70
    try:
        if output is not None:
            with output.open("wb") as target:
                os.dup2(target.fileno(), 1)
                os.dup2(target.fileno(), 2)
        os.setpgid(0, 0)
        os.chdir(file.parent)
        os.environ.setdefault("OPENIPU_ENGINE", "operators")
        folders = [str(HERE), str(root)]
        os.environ["PYTHONPATH"] = os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")])
        sys.path[:0] = ["", *folders]
        code = int(pytest.main(command))
    finally:
        os._exit(code)


def _wait(child: int, limit: int) -> int | None:
    """The exit code of a child; None where it took too long, and was ended with what it started."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def find_reason(item: str, misses: dict[str, str]) -> str | None:
    """The reason of the first pattern that an item matches."""
    return next((reason for pattern, reason in misses.items() if fnmatch.fnmatchcase(item, pattern)), None)


def list_kinds(outcomes: dict[str, str], root: Path) -> dict[str, str]:
    """What each item uses, told from its code alone."""
    files = {name: classify(root / name, root) for name in {item.partition("::")[0] for item in outcomes}}
    return {item: classify_item(item.partition("::")[2], files[item.partition("::")[0]]) for item in outcomes}


def write_share(outcomes: dict[str, str], kinds: dict[str, str]) -> str:
    own = [outcome for item, outcome in outcomes.items() if kinds[item] == PUBLIC and outcome != "skipped"]
    passed = own.count("passed")
    share = 100 * passed / max(1, len(own))
    return f"{passed:,} of {len(own):,} items that use the public interface alone pass ({share:.1f} %)"


def write_section(outcomes: dict[str, str], kinds: dict[str, str], rules: dict[str, dict[str, str]]) -> str:
    failed = [item for item, outcome in outcomes.items() if outcome not in ("passed", "skipped")]
    ran = [item for item, outcome in outcomes.items() if outcome != "skipped"]
    passed = len(ran) - len(failed)
    lines = [
        f"Counted on {datetime.date.today().isoformat()}: **{write_share(outcomes, kinds)}**. "
        f"Of all {len(ran):,} items {passed:,} pass ({100 * passed / max(1, len(ran)):.1f} %); the suite itself skips "
        f"{len(outcomes) - len(ran)} more.",
        "",
        "What an item uses is told from its code, whatever its outcome (`tests/conformance/popart_scope.py`): from the "
        "names in it, and in the suite's helpers and fixtures that it calls.",
        "",
        "| What an item uses | Items | pass |",
        "|---|--:|--:|",
        *(
            f"| {kind} | {sum(kinds[item] == kind for item in ran):,} | "
            f"{sum(kinds[item] == kind and outcomes[item] == 'passed' for item in ran):,} |"
            for kind in dict.fromkeys([PUBLIC, *sorted(kinds.values())])
        ),
    ]
    for title, own in (
        ("Items that use the public interface alone, and fail", [item for item in failed if kinds[item] == PUBLIC]),
        ("Other items that fail", [item for item in failed if kinds[item] != PUBLIC]),
    ):
        reasons = Counter(find_reason(item, rules["misses"]) or "not known yet" for item in own)
        lines += ["", f"| {title} | Reason |", "|--:|---|"]
        lines += [f"| {count} | {reason} |" for reason, count in reasons.most_common()]
    lines += ["", "| Files that are left out | Reason |", "|---|---|"]
    lines += [f"| `{pattern}` | {reason} |" for pattern, reason in rules["left_out"].items()]
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
