"""Runs the public tests of TensorFlow on IPU against ours.

    OPENIPU_TENSORFLOW_CHECKOUT=path/to/tensorflow .venv-tf/bin/python tests/conformance/run_tensorflow.py [FILE …]

In: a checkout of graphcore/tensorflow (a branch of TensorFlow 2.6 or 1.15), of which `tensorflow/python/ipu` is enough,
and which is only read. FILE is a part of a file's name; none: all. Each file runs in a process of
its own, because it sets TensorFlow's mode. Out: the outcome of every item, kept in a file (`--json`) whose other
entries stay, for `tensorflow_page.py`; and exit code 1 if one fails without a reason in `tensorflow_misses.toml`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

from tensorflow_page import Item, Reasons, merge, read_items, save_items, write_shares
from tensorflow_scope import classify, classify_item

CHECKOUT_VARIABLE = "OPENIPU_TENSORFLOW_CHECKOUT"
HERE = Path(__file__).resolve().parent
FOLDER = "tensorflow/python/ipu"
PLUGIN = "tensorflow_suite"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=("2.6", "1.15"), default="2.6", help="what the checkout is")
    add_options(parser)
    options = parser.parse_args()
    folder = Path(os.environ.get(CHECKOUT_VARIABLE, "")) / FOLDER
    tests = sorted(folder.rglob("*_test.py")) if os.environ.get(CHECKOUT_VARIABLE) else []
    chosen = [path for path in tests if not options.files or any(part in path.name for part in options.files)]
    if not chosen:
        print(f"Set {CHECKOUT_VARIABLE} to a checkout with {FOLDER}.", file=sys.stderr)
        return 2
    return report_items(run_files(chosen, options, options.suite, PLUGIN))


def add_options(parser: argparse.ArgumentParser) -> None:
    """What runs of all suites have in common."""
    parser.add_argument("--json", type=Path, default=Path("tensorflow_outcomes.json"), help="where outcomes are kept")
    parser.add_argument("--limit", type=int, default=1800, help="seconds for one file")
    parser.add_argument("--verbose", action="store_true", help="show pytest's own output")
    parser.add_argument("--model", action="store_true", help="as on the model of an IPU, not as on 16 IPUs")
    parser.add_argument("-k", dest="expression", default="", help="as pytest's -k; outcomes are not kept then")
    parser.add_argument("files", nargs="*", help="parts of file names; none: all")


def run_files(paths: Sequence[Path], options: argparse.Namespace, suite: str, plugin: str) -> list[Item]:
    """Run files one after the other; what each gives is kept at once."""
    ran: list[Item] = []
    for path in paths:
        found = run_file(path, options, suite, plugin)
        ran += found
        print(f"{path.name}: {sum(item.passed for item in found)} of {len(found)}", flush=True)
        if not options.expression:
            save_items(options.json, merge([read_items(options.json), found]))
    return ran


def report_items(ran: Sequence[Item]) -> int:
    """Print what fails, and why; 1 where that is not known."""
    reasons = Reasons()
    failed = [item for item in ran if not item.passed and not item.skipped]
    for item in failed:
        print(f"{item.name}: {reasons.find(item) or 'no known reason: ' + item.outcome}")
    for line in write_shares(ran):
        print(line)
    return 0 if ran and all(reasons.find(item) for item in failed) else 1


def run_file(path: Path, options: argparse.Namespace, suite: str, plugin: str) -> list[Item]:
    """The items of one file."""
    kinds = classify(path)
    mode = {"TF_POPLAR_FLAGS": "--use_ipu_model"} if options.model else {"TF_IPU_COUNT": "16"}
    environment = {
        **os.environ,
        **mode,
        "OPENIPU_TIER": "instant",
        "PYTHONPATH": str(HERE),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_ENABLE_ONEDNN_OPTS": "0",
    }
    with tempfile.TemporaryDirectory(prefix="tensorflow-suite-") as place:
        report = Path(place) / "report.xml"
        command = [
            sys.executable, "-m", "pytest", "-p", plugin, "-p", "no:cacheprovider", "-q", "-c", os.devnull,
            f"--rootdir={place}", f"--junitxml={report}", "--tb=short", "-p", "no:warnings", str(path),
        ]  # fmt: skip
        if options.expression:
            command += ["-k", options.expression]
        silent = None if options.verbose else subprocess.DEVNULL
        child = subprocess.Popen(
            command, cwd=place, env=environment, stdout=silent, stderr=silent, start_new_session=True
        )
        try:
            child.wait(options.limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # with what it started
            child.wait()
            outcomes = {"": f"failed: more than {options.limit} s"}
        else:
            outcomes = read_report(report) if report.is_file() else {"": "failed: the process died"}
    if "" in outcomes:  # nothing ran: each test of the file counts
        outcomes = {test.replace(".", "::"): outcomes[""] for test in kinds}
    return [
        Item(suite, f"{path.name}::{name}", outcome, classify_item(name, kinds)) for name, outcome in outcomes.items()
    ]


def read_report(report: Path) -> dict[str, str]:
    """Outcomes by "Class::test"; of a file that could not be imported, one without a name."""
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        problem = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        outcome = "passed" if problem is None else f"{problem.tag}: {read_message(problem)}"
        if problem is not None and problem.get("message") == "collection failure":
            return {"": outcome}
        outcomes["::".join([case.get("classname", "").rpartition(".")[2], case.get("name", "")])] = outcome
    return outcomes


def read_message(problem: ElementTree.Element) -> str:
    """What went wrong, in a line; of a file that could not be imported, the error of the import."""
    message = (problem.get("message") or "").strip()
    if message == "collection failure":
        errors = [line[2:].strip() for line in (problem.text or "").splitlines() if line.startswith("E ")]
        message = next((line for line in errors if "Error" in line), message)
    return message.split("\n")[0][:200]


if __name__ == "__main__":
    sys.exit(main())
