"""Runs the public tests of TensorFlow on IPU against ours, and writes their section of docs/conformance.md.

    OPENIPU_TENSORFLOW_CHECKOUT=path/to/tensorflow .venv-tf/bin/python tests/conformance/run_tensorflow.py [--page]

In: a checkout of graphcore/tensorflow (a branch of TensorFlow 2.6 or 1.15), which is only read; `tensorflow/python/ipu`
of it is enough. Each file of `tests` runs in a process of its own, because it sets TensorFlow's mode. Out: the outcome
of every item, and exit code 1 if one fails without a reason in `tensorflow_misses.toml`.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import os
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

CHECKOUT_VARIABLE = "OPENIPU_TENSORFLOW_CHECKOUT"
HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "conformance.md"
START, END = "<!-- tensorflow: made by tests/conformance/run_tensorflow.py -->", "<!-- end of tensorflow -->"
LONGEST_SECONDS = 1800


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="renew the section of docs/conformance.md")
    parser.add_argument("--verbose", action="store_true", help="show pytest's own output")
    parser.add_argument("--model", action="store_true", help="as on the model of an IPU, not as on 16 IPUs")
    parser.add_argument("files", nargs="*", help="parts of file names; none: all")
    options = parser.parse_args()
    checkout = os.environ.get(CHECKOUT_VARIABLE, "")
    suite = Path(checkout) / "tensorflow" / "python" / "ipu" / "tests"
    if not checkout or not (suite / "config_test.py").is_file():
        print(f"Set {CHECKOUT_VARIABLE} to a checkout of graphcore/tensorflow.", file=sys.stderr)
        return 2
    files = sorted(path.name for path in suite.glob("*_test.py"))
    chosen = [name for name in files if not options.files or any(part in name for part in options.files)]
    outcomes: dict[str, str] = {}
    for name in chosen:
        found = run_file(suite, name, options.verbose, options.model)
        passed = sum(outcome == "passed" for outcome in found.values())
        print(f"{name}: {passed} of {len(found)}", flush=True)
        outcomes |= found
    ran = {item: outcome for item, outcome in outcomes.items() if not outcome.startswith("skipped")}
    failed = {item: outcome for item, outcome in ran.items() if outcome != "passed"}
    reasons = {item: find_reason(item, outcome) for item, outcome in failed.items()}
    for item, outcome in failed.items():
        print(f"{item}: {reasons[item] or 'no known reason: ' + outcome}")
    print(f"{len(ran) - len(failed)} of {len(ran)} items that run pass; {len(outcomes) - len(ran)} skip themselves")
    if options.page:
        text = write_section(chosen, ran, reasons, len(outcomes) - len(ran))
        PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), text), "utf-8")
    return 1 if not ran or not all(reasons.values()) else 0


def run_file(suite: Path, name: str, verbose: bool, model: bool, plugin: str = "tensorflow_suite") -> dict[str, str]:
    """Outcome of each item as "file.py::Class::item"."""
    mode = {"TF_POPLAR_FLAGS": "--use_ipu_model"} if model else {"TF_IPU_COUNT": "16"}
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
            f"--rootdir={place}", f"--junitxml={report}", "--tb=short", "-p", "no:warnings", str(suite / name),
        ]  # fmt: skip
        silent = None if verbose else subprocess.DEVNULL
        try:
            subprocess.run(command, cwd=place, env=environment, timeout=LONGEST_SECONDS, stdout=silent, stderr=silent)
        except subprocess.TimeoutExpired:
            return {f"{name}::all": f"failed: more than {LONGEST_SECONDS} s"}
        if not report.is_file():
            return {f"{name}::all": "failed: the process died"}
        outcomes: dict[str, str] = {}
        for case in ElementTree.parse(report).iter("testcase"):
            title = "::".join([case.get("classname", "").rpartition(".")[2] or "import", case.get("name", "")])
            problem = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
            message = "" if problem is None else read_message(problem)
            outcomes[f"{name}::{title}"] = "passed" if problem is None else f"{problem.tag}: {message}"
        return outcomes


def read_message(problem: ElementTree.Element) -> str:
    """What went wrong, in a line; of a file that could not be imported, the error of the import."""
    message = (problem.get("message") or "").strip()
    if message == "collection failure":
        errors = [line[2:].strip() for line in (problem.text or "").splitlines() if line.startswith("E ")]
        message = next((line for line in errors if "Error" in line), message)
    return message.split("\n")[0][:200]


def find_reason(item: str, outcome: str) -> str:
    """Why an item fails: by its own pattern, or by the words of its error."""
    table = tomllib.loads((HERE / "tensorflow_misses.toml").read_text(encoding="utf-8"))
    named = (entry["reason"] for entry in table["items"] if fnmatch.fnmatch(item, entry["pattern"]))
    worded = (entry["reason"] for entry in table["errors"] if any(words in outcome for words in entry["words"]))
    return next(named, "") or next(worded, "")


def write_section(files: list[str], ran: dict[str, str], reasons: dict[str, str], skipped: int) -> str:
    examples: dict[str, str] = {}
    for item, reason in reasons.items():
        examples.setdefault(reason or "not known yet", item)
    order = Counter(reason or "not known yet" for reason in reasons.values()).most_common()
    lines = [
        f"Counted on {datetime.date.today().isoformat()}, of {len(files)} files: **{len(ran) - len(reasons)} of "
        f"{len(ran)} items that run pass**; {skipped} more skip themselves.",
        "",
        "| Items | Reason | For example |",
        "|--:|---|---|",
        *(f"| {count} | {reason} | `{examples[reason]}` |" for reason, count in order),
    ]
    return "\n".join(lines if reasons else lines[:1])


def replace_section(page: str, text: str) -> str:
    """The page with new text between the two marks."""
    before, _, rest = page.partition(START)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"The page has no {START} … {END}.")
    return f"{before}{START}\n\n{text}\n\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
