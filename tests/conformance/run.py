"""Runs the public PopTorch test suite against ours and counts what passes.

    OPENIPU_POPTORCH_CHECKOUT=path/to/poptorch python tests/conformance/run.py [--hardware] [--json OUT] [FILE ...]

The checkout is only read: its `tests/` is copied to a temporary folder and run there, a process a file.
With `--hardware`, `poptorch.ipuHardwareIsAvailable()` answers True, which unlocks the items kept for real IPUs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

CHECKOUT_VARIABLE = "OPENIPU_POPTORCH_CHECKOUT"
HARDWARE_VARIABLE = "OPENIPU_REPORT_HARDWARE"
HERE = Path(__file__).resolve().parent
NOT_RUN = {  # cannot be collected here, each with its reason
    "test_doc_urls.py": "asks the network",
    "custom_ops_test.py": "loads compiled C++ ops",
    "custom_ops_attributes_test.py": "loads compiled C++ ops",
    "half_test.py": "imports torchvision",
    "fine_tuning_test.py": "imports torchvision",
    "torchvision_inference_test.py": "imports torchvision",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="test files of the suite; all of them when none is given")
    parser.add_argument("--hardware", action="store_true", help="answer that IPU hardware is there")
    parser.add_argument("--json", type=Path, help="write the outcome of every item to this file")
    parser.add_argument("--timeout", type=int, default=900, help="seconds a file may take")
    parser.add_argument("--verbose", action="store_true", help="show pytest's own output")
    parser.add_argument("-k", dest="expression", default="", help="as pytest's -k")
    options = parser.parse_args()
    checkout = os.environ.get(CHECKOUT_VARIABLE)
    if not checkout or not (Path(checkout) / "tests").is_dir():
        print(f"Set {CHECKOUT_VARIABLE} to a checkout of graphcore/poptorch.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="poptorch-suite-") as place:
        suite = Path(place) / "tests"
        shutil.copytree(Path(checkout) / "tests", suite, ignore=shutil.ignore_patterns("gnn", "cpp"))
        files = [Path(name).stem + ".py" for name in options.files] or list_files(suite)
        outcomes: dict[str, dict[str, str]] = {}
        for name in files:
            outcomes[name] = run_file(suite, name, options)
            print_counts(name, outcomes[name])
    total = Counter(outcome.split(":")[0] for items in outcomes.values() for outcome in items.values())
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    if options.json:
        options.json.write_text(json.dumps(outcomes, indent=1))
    return 1 if total["failed"] else 0


def list_files(suite: Path) -> list[str]:
    found = sorted(
        path.name for path in suite.glob("*.py") if path.name.endswith("_test.py") or path.name.startswith("test_")
    )
    return [name for name in found if name not in NOT_RUN]


def run_file(suite: Path, name: str, options: argparse.Namespace) -> dict[str, str]:
    """Outcome of each item: passed, skipped, or failed with the first line of its message."""
    report = suite.parent / f"{name}.xml"
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), str(suite), environment.get("PYTHONPATH", "")])
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment.setdefault("HF_HUB_OFFLINE", "1")  # items that download fail at once instead of trying for long
    if options.hardware:
        environment[HARDWARE_VARIABLE] = "1"
    command = [
        sys.executable, "-m", "pytest", "-p", "shims", "-p", "no:cacheprovider", "-q", "-c", os.devnull,
        f"--rootdir={suite}", f"--junitxml={report}", "--tb=short", str(suite / name),
    ]  # fmt: skip
    if options.expression:
        command += ["-k", options.expression]
    try:
        done = subprocess.run(
            command,
            cwd=suite.parent,
            env=environment,
            timeout=options.timeout,
            stdin=subprocess.DEVNULL,
            stdout=None if options.verbose else subprocess.PIPE,
            stderr=None if options.verbose else subprocess.STDOUT,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return {"(file)": f"failed: more than {options.timeout} s"}
    if not report.exists():
        return {"(file)": f"failed: exit code {done.returncode} without a report"}
    return read_report(report)


def read_report(report: Path) -> dict[str, str]:
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name", "")
        problem = next((child for child in case if child.tag in ("failure", "error")), None)
        if problem is not None:
            outcomes[name] = "failed: " + (problem.get("message") or "").strip().split("\n")[0][:200]
        elif case.find("skipped") is not None:
            outcomes[name] = "skipped: " + (case.find("skipped").get("message") or "")[:120]
        else:
            outcomes[name] = "passed"
    return outcomes


def print_counts(name: str, items: dict[str, str]) -> None:
    counts = Counter(outcome.split(":")[0] for outcome in items.values())
    print(
        f"{name:40} {counts['passed']:5} passed {counts['failed']:5} failed {counts['skipped']:5} skipped", flush=True
    )
    for item, outcome in items.items():
        if outcome.startswith("failed"):
            print(f"    {item}: {outcome.removeprefix('failed: ')}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
