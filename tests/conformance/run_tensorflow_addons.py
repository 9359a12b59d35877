"""Runs the public tests of `ipu_tensorflow_addons` against ours, and writes their section of docs/conformance.md.

    OPENIPU_TENSORFLOW_CHECKOUT=path/to/tensorflow OPENIPU_ADDONS_CHECKOUT=path/to/ipu_tensorflow_addons \
        .venv-tf/bin/python tests/conformance/run_tensorflow_addons.py [--page]

In: both checkouts, which are only read: the tests use helpers of TensorFlow's. Each file runs in a process of its own,
as a copy in a folder that is gone afterwards, because its own folder is the package that we stand in for. Out: as
`run_tensorflow.py`, with reasons from the same file.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import run_tensorflow as suite

CHECKOUT_VARIABLE = "OPENIPU_ADDONS_CHECKOUT"
START, END = "<!-- addons: made by tests/conformance/run_tensorflow_addons.py -->", "<!-- end of addons -->"
FOLDERS = ("keras/layers", "keras/optimizers", "v1/layers")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="renew the section of docs/conformance.md")
    parser.add_argument("--verbose", action="store_true", help="show pytest's own output")
    parser.add_argument("files", nargs="*", help="parts of file names; none: all")
    options = parser.parse_args()
    root = Path(os.environ.get(CHECKOUT_VARIABLE, "")) / "ipu_tensorflow_addons"
    if not (root / "keras").is_dir() or not os.environ.get(suite.CHECKOUT_VARIABLE):
        print(f"Set {CHECKOUT_VARIABLE} and {suite.CHECKOUT_VARIABLE} to checkouts.", file=sys.stderr)
        return 2
    found = sorted(path for folder in FOLDERS for path in (root / folder).glob("*_test.py"))
    chosen = [path for path in found if not options.files or any(part in path.name for part in options.files)]
    outcomes: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="addons-suite-") as place:
        for path in chosen:
            shutil.copy(path, place)
            made = suite.run_file(Path(place), path.name, options.verbose, False, "tensorflow_addons_suite")
            print(f"{path.name}: {sum(outcome == 'passed' for outcome in made.values())} of {len(made)}", flush=True)
            outcomes |= made
    ran = {item: outcome for item, outcome in outcomes.items() if not outcome.startswith("skipped")}
    reasons = {item: suite.find_reason(item, outcome) for item, outcome in ran.items() if outcome != "passed"}
    for item, reason in reasons.items():
        print(f"{item}: {reason or 'no known reason: ' + ran[item]}")
    print(f"{len(ran) - len(reasons)} of {len(ran)} items that run pass; {len(outcomes) - len(ran)} skip themselves")
    if options.page:
        text = suite.write_section([path.name for path in chosen], ran, reasons, len(outcomes) - len(ran))
        page = suite.PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(START)
        suite.PAGE.write_text(f"{before}{START}\n\n{text}\n\n{END}{rest.partition(END)[2]}", "utf-8")
    return 1 if not ran or not all(reasons.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
