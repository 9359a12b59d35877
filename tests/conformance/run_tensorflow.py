"""Runs the public tests of TensorFlow on IPU against ours.

    OPENIPU_TENSORFLOW_CHECKOUT=path/to/tensorflow .venv-tf/bin/python tests/conformance/run_tensorflow.py [FILE …]

In: a checkout of graphcore/tensorflow (a branch of TensorFlow 2.6 or 1.15), of which `tensorflow/python/ipu` is enough,
and which is only read. FILE is a part of a file's name; none: all. Each file runs in a process of
its own, because it sets TensorFlow's mode. Out: the outcome of every item, kept in a file (`--json`) whose other
entries stay, for `tensorflow_page.py`; and exit code 1 if one fails without a reason in `tensorflow_misses.toml`. Of a
file that does not end in time, what it came to counts, and the rest of its items fail.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tensorflow_outcomes import NOT_REACHED, VARIABLE, read_outcomes
from tensorflow_page import Item, Reasons, merge, read_items, renew, save_items, write_shares
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
    chosen = choose_files(tests, options.files)
    if not chosen:
        print(f"Set {CHECKOUT_VARIABLE} to a checkout with {FOLDER}.", file=sys.stderr)
        return 2
    return report_items(run_files(chosen, options, options.suite, PLUGIN))


def choose_files(tests: Sequence[Path], parts: Sequence[str]) -> dict[str, Path]:
    """Files by name, with their folder where two have one name; those with one of the parts in it, or all."""
    counts = Counter(path.name for path in tests)
    named = {path.name if counts[path.name] == 1 else f"{path.parent.name}/{path.name}": path for path in tests}
    return {name: path for name, path in named.items() if not parts or any(part in name for part in parts)}


def add_options(parser: argparse.ArgumentParser) -> None:
    """What runs of all suites have in common."""
    parser.add_argument("--json", type=Path, default=Path("tensorflow_outcomes.json"), help="where outcomes are kept")
    parser.add_argument("--limit", type=int, default=1800, help="seconds for one file")
    parser.add_argument("--verbose", action="store_true", help="show pytest's own output")
    parser.add_argument("--model", action="store_true", help="as on the model of an IPU, not as on 16 IPUs")
    parser.add_argument(
        "-k", dest="expression", default="", help="as pytest's -k; outcomes of these items alone are renewed"
    )
    parser.add_argument("files", nargs="*", help="parts of file names; none: all")


def run_files(files: Mapping[str, Path], options: argparse.Namespace, suite: str, plugin: str) -> list[Item]:
    """Run files one after the other; what each gives is kept at once."""
    ran: list[Item] = []
    for name, path in files.items():
        found = run_file(path, options, suite, plugin, name)
        ran += found
        print(f"{name}: {sum(item.passed for item in found)} of {len(found)}", flush=True)
        kept = read_items(options.json)
        save_items(options.json, renew(kept, found) if options.expression else merge([kept, found]))
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


def run_file(path: Path, options: argparse.Namespace, suite: str, plugin: str, name: str = "") -> list[Item]:
    """The items of one file."""
    kinds = classify(path)
    mode = {"TF_POPLAR_FLAGS": "--use_ipu_model"} if options.model else {"TF_IPU_COUNT": "16"}
    if suite == "1.15":
        mode["OPENIPU_TF1"] = "1"  # graphs are what these tests begin with
    with tempfile.TemporaryDirectory(prefix="tensorflow-suite-") as place:
        kept = Path(place) / "outcomes"
        environment = {
            **os.environ,
            **mode,
            VARIABLE: str(kept),
            "OPENIPU_ENGINE": "operators",
            "PYTHONPATH": str(HERE),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_ENABLE_ONEDNN_OPTS": "0",
        }
        command = [
            sys.executable, "-m", "pytest", "-p", "tensorflow_outcomes", "-p", plugin, "-p", "no:cacheprovider", "-q",
            "-c", os.devnull, f"--rootdir={place}", "--tb=short", "-p", "no:warnings",
            "-o", "python_functions=",  # the suites' items are methods; some helpers are functions called test_…
            str(path),
        ]  # fmt: skip
        if options.expression:
            command += ["-k", options.expression]
        silent = None if options.verbose else subprocess.DEVNULL
        child = subprocess.Popen(
            command, cwd=place, env=environment, stdout=silent, stderr=silent, start_new_session=True
        )
        why = "the process died"
        try:
            child.wait(options.limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # with what it started
            child.wait()
            why = f"more than {options.limit} s"
        outcomes = complete(read_outcomes(kept), list(kinds), why)
    title = name or path.name
    return [Item(suite, f"{title}::{test}", found, classify_item(test, kinds)) for test, found in outcomes.items()]


def complete(outcomes: Mapping[str, str], tests: Sequence[str], why: str) -> dict[str, str]:
    """Outcomes of all items: those that were not reached fail, and so do all tests of a file in which nothing ran."""
    if not outcomes or "" in outcomes:
        return {test.replace(".", "::"): outcomes.get("", f"failed: {why}") for test in tests}
    return {test: f"failed: {why}" if found == NOT_REACHED else found for test, found in outcomes.items()}


if __name__ == "__main__":
    sys.exit(main())
