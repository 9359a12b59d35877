"""Runs the public tests of `ipu_tensorflow_addons` against ours.

    OPENIPU_TENSORFLOW_CHECKOUT=path/to/tensorflow OPENIPU_ADDONS_CHECKOUT=path/to/ipu_tensorflow_addons \
        .venv-tf/bin/python tests/conformance/run_tensorflow_addons.py [FILE …]

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

import run_tensorflow as runner

CHECKOUT_VARIABLE = "OPENIPU_ADDONS_CHECKOUT"
FOLDERS = ("keras/layers", "keras/optimizers", "v1/layers")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runner.add_options(parser)
    options = parser.parse_args()
    root = Path(os.environ.get(CHECKOUT_VARIABLE, "")) / "ipu_tensorflow_addons"
    if not (root / "keras").is_dir() or not os.environ.get(runner.CHECKOUT_VARIABLE):
        print(f"Set {CHECKOUT_VARIABLE} and {runner.CHECKOUT_VARIABLE} to checkouts.", file=sys.stderr)
        return 2
    found = sorted(path for folder in FOLDERS for path in (root / folder).glob("*_test.py"))
    with tempfile.TemporaryDirectory(prefix="addons-suite-") as place:
        copies = {}
        for name, path in runner.choose_files(found, options.files).items():
            copies[name] = Path(place) / name
            copies[name].parent.mkdir(exist_ok=True)
            shutil.copy(path, copies[name])
        return runner.report_items(runner.run_files(copies, options, "addons", "tensorflow_addons_suite"))


if __name__ == "__main__":
    sys.exit(main())
