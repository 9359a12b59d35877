"""Runs the original optimum-graphcore 0.7.1, unmodified, on our PopTorch; writes its section of docs/conformance.md.

    OPENIPU_OPTIMUM_CHECKOUT=path/to/optimum-graphcore python tests/conformance/run_optimum.py [--page]

In: a checkout of v0.7.1, of which only `tests/` is copied and run; the package itself is the published wheel, in an
environment of its own that is made at the first run (`--environment`). Beside the original's test files run ours, which
put its model classes, its generation and its trainers to use. Out: the outcome of every item, and exit code 1 if one
fails without a reason in `optimum_misses.toml`, or if fewer pass than are recorded there.
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
from collections.abc import Mapping
from pathlib import Path

from optimum_environment import prepare_environment

CHECKOUT_VARIABLE = "OPENIPU_OPTIMUM_CHECKOUT"
VERSION = "0.7.1"
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "conformance.md"
START, END = "<!-- optimum: made by tests/conformance/run_optimum.py -->", "<!-- end of optimum -->"
ORIGINAL = ("test_ipu_configuration.py", "test_modeling_utils.py", "test_trainer.py")
OURS = {
    "optimum_matrix.py": "its 45 model classes: outputs and a step of training, on 1 and on 4 IPUs",
    "optimum_generation.py": "its ways to generate: greedy and beams, with and without caches, steps on the device",
    "optimum_training.py": "its trainers: a classifier in float32 and half, a sequence model that generates",
}
SWITCHES = {
    "OPENIPU_REPORT_HARDWARE": "1",  # the original refuses to run where there is no Mk2 IPU
    "OPENIPU_COMPILE_AFTER": "inf",  # the items are short: a compiler in the background would only take turns
    "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",  # its checkpoints hold more than tensors, and are older than the question
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
}


Outcomes = dict[str, str]  # item -> "passed", or what happened instead


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="renew the section of docs/conformance.md")
    parser.add_argument("--verbose", action="store_true", help="show pytest's own output")
    parser.add_argument("--environment", type=Path, default=ROOT / ".cache" / f"optimum-{VERSION}")
    parser.add_argument("--file", action="append", choices=[*ORIGINAL, *OURS], help="this file only; may be repeated")
    parser.add_argument("-k", dest="expression", default="", help="as pytest's -k")
    options = parser.parse_args()
    checkout = Path(os.environ.get(CHECKOUT_VARIABLE, "absent"))
    if not is_checkout(checkout):
        print(f"Set {CHECKOUT_VARIABLE} to a checkout of huggingface/optimum-graphcore, v{VERSION}.", file=sys.stderr)
        return 2
    python = prepare_environment(options.environment.resolve())
    known = tomllib.loads((HERE / "optimum_misses.toml").read_text(encoding="utf-8"))
    files = options.file or [*ORIGINAL, *OURS]
    outcomes = {}
    for file in files:
        outcomes[file] = run_file(python, checkout, file, options)
        print(f"{count_passed(outcomes[file]):4} of {len(outcomes[file]):3} items pass: {file}", flush=True)
    faults = list_faults(outcomes, known["misses"], {} if options.expression else known["passes"])
    for fault in faults:
        print(fault, file=sys.stderr)
    if options.page and not options.file and not options.expression:
        PAGE.write_text(replace_section(PAGE.read_text("utf-8"), write_section(outcomes, known["misses"])), "utf-8")
    return 1 if faults else 0


def is_checkout(checkout: Path) -> bool:
    """Is this the version that the wheel was made of?"""
    version = checkout / "optimum" / "graphcore" / "version.py"
    return (checkout / "tests").is_dir() and version.is_file() and f'"{VERSION}"' in version.read_text()


def run_file(python: Path, checkout: Path, file: str, options: argparse.Namespace) -> Outcomes:
    """Run one file in a process and a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="optimum-suite-") as name:
        place = Path(name)
        shutil.copytree(checkout / "tests", place / "tests")
        report = place / "report.xml"
        own = {"OPENIPU_CACHE_DIR": str(place / "cache"), "OPENIPU_STATE_DIR": str(place / "state")}
        for directory in own.values():
            Path(directory).mkdir(mode=0o700)
        environment = {**os.environ, **SWITCHES, **own, "PYTHONPATH": str(ROOT / "tests" / "optimum")}
        target = f"tests/{file}" if file in ORIGINAL else str(HERE / file)
        command = [
            str(python), "-m", "pytest", "-p", "no:typeguard", "-p", "no:cacheprovider", "-q", "-c", os.devnull,
            f"--rootdir={place}", "--noconftest", f"--junitxml={report}", "--tb=short", target,
        ]  # fmt: skip
        if options.expression:
            command += ["-k", options.expression]
        output = None if options.verbose else subprocess.DEVNULL
        subprocess.run(command, cwd=place, env=environment, stdout=output, stderr=output)
        return (
            read_report(report, Path(file).stem) if report.is_file() else {"all of it": "failed: pytest did not finish"}
        )


def read_report(report: Path, module: str) -> Outcomes:
    """Outcome of each item as "Class::item", or "item" where there is no class."""
    outcomes: Outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        problem = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        message = "" if problem is None else (problem.get("message") or "").strip().split("\n")[0][:200]
        outcome = "passed" if problem is None else f"{problem.tag}: {message}"
        owner = case.get("classname", "").rpartition(".")[2]
        name = case.get("name", "") if owner in ("", module) else f"{owner}::{case.get('name', '')}"
        if outcomes.get(name, "passed") == "passed":  # a part of an item may fail where another one passes
            outcomes[name] = outcome
    return outcomes


def count_passed(outcomes: Outcomes) -> int:
    return sum(outcome == "passed" for outcome in outcomes.values())


def list_faults(outcomes: Mapping[str, Outcomes], misses: Mapping[str, str], passes: Mapping[str, int]) -> list[str]:
    """Items that fail for no known reason, known misses that pass, and files of which fewer items pass than before."""
    faults = []
    for file, items in outcomes.items():
        for item, outcome in items.items():
            name = f"{file}::{item}"
            if outcome != "passed" and name not in misses:
                faults.append(f"no known reason: {name}: {outcome}")
            if outcome == "passed" and name in misses:
                faults.append(f"known miss that fails no more, take it out of optimum_misses.toml: {name}")
        if count_passed(items) < passes.get(file, 0):
            faults.append(f"{file}: {passes[file]} items passed before, and {count_passed(items)} do now")
    return faults


def write_section(outcomes: Mapping[str, Outcomes], misses: Mapping[str, str]) -> str:
    passed = sum(count_passed(outcomes[file]) for file in ORIGINAL)
    skipped = [
        f"{file}::{item}" for file in ORIGINAL for item, outcome in outcomes[file].items() if outcome != "passed"
    ]
    total = sum(len(outcomes[file]) for file in ORIGINAL)
    offline = total - sum(misses.get(item, "").startswith("hub:") for item in skipped)
    lines = [
        f"Counted on {datetime.date.today().isoformat()}: "
        f"**{passed} of the {offline} items that need no network pass**.",
        "",
        "| The original's tests | Items | Pass |",
        "|---|---:|---:|",
        *(f"| `{file}` | {len(outcomes[file])} | {count_passed(outcomes[file])} |" for file in ORIGINAL),
        "",
        "| Put to use | Items | Pass |",
        "|---|---:|---:|",
        *(f"| {what} | {len(outcomes[file])} | {count_passed(outcomes[file])} |" for file, what in OURS.items()),
    ]
    if skipped:
        lines += ["", "| Item that does not pass | Reason |", "|---|---|"]
        lines += [f"| `{item}` | {misses.get(item, 'not known yet')} |" for item in skipped]
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
