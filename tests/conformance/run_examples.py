"""Runs the example programs of the public PopTorch repository against ours, unmodified, and says which end well.

    OPENIPU_POPTORCH_CHECKOUT=path/to/poptorch python tests/conformance/run_examples.py [--json OUT] [NAME ...]

The checkout is only read: the programs are copied to a temporary folder and run there, a process each.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from run import CHECKOUT_VARIABLE, HARDWARE_VARIABLE

PLACES = ("examples", "docs/user_guide")
NOT_RUN = {  # each with its reason
    "examples/bert_ipu.py": "downloads a model",
    "examples/mnist.py": "downloads a data set",
    "docs/user_guide/inferenceModel.py": "imports torchvision",
    "docs/user_guide/mnist.py": "downloads a data set",
    "docs/user_guide/pipeline_simple.py": "downloads a model",
}
HARDWARE = ("device_iterations", "precompilation")  # these end at once unless hardware is there


@dataclass(frozen=True)
class Outcome:
    """How one program ended."""

    name: str
    passed: bool
    seconds: float
    detail: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs, such as lstm; all of them when none is given")
    parser.add_argument("--json", type=Path, help="write the outcomes to this file")
    parser.add_argument("--timeout", type=int, default=300, help="seconds that a program may take")
    parser.add_argument("--verbose", action="store_true", help="show what the programs print")
    options = parser.parse_args()
    checkout = Path(os.environ.get(CHECKOUT_VARIABLE, ""))
    if not (checkout / PLACES[0]).is_dir():
        print(f"Set {CHECKOUT_VARIABLE} to a checkout of graphcore/poptorch.", file=sys.stderr)
        return 2
    outcomes = [run_program(path, checkout, options) for path in list_programs(checkout, options.names)]
    failed = sum(not outcome.passed for outcome in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed")
    for name, reason in NOT_RUN.items():
        print(f"    not run: {name} ({reason})")
    if options.json:
        options.json.write_text(json.dumps([vars(outcome) for outcome in outcomes], indent=1))
    return 1 if failed else 0


def list_programs(checkout: Path, names: list[str]) -> list[Path]:
    found = [path for place in PLACES for path in sorted((checkout / place).glob("*.py"))]
    wanted = {Path(name).stem for name in names}
    if wanted:
        return [path for path in found if path.stem in wanted]
    return [path for path in found if str(path.relative_to(checkout)) not in NOT_RUN]


def run_program(path: Path, checkout: Path, options: argparse.Namespace) -> Outcome:
    """In a folder of its own, with the files that lie beside it; the guide's programs expect those under `tmp/`."""
    name = str(path.relative_to(checkout))
    environment = dict(os.environ)
    if path.stem in HARDWARE:
        environment[HARDWARE_VARIABLE] = "1"
    with tempfile.TemporaryDirectory(prefix="poptorch-example-") as place:
        folder = Path(place)
        shutil.copytree(path.parent, folder / "tmp", ignore=shutil.ignore_patterns("*.png", "*.jpg", "*.rst"))
        started = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, str(folder / "tmp" / path.name)],
                cwd=folder,
                env=environment,
                timeout=options.timeout,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
        except subprocess.TimeoutExpired:
            return report(Outcome(name, False, options.timeout, f"more than {options.timeout} s"))
    if options.verbose:
        print(done.stdout + done.stderr)
    lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
    detail = "" if done.returncode == 0 else (lines[-1] if lines else f"exit code {done.returncode}")
    return report(Outcome(name, done.returncode == 0, round(time.monotonic() - started, 1), detail))


def report(outcome: Outcome) -> Outcome:
    word = "passed" if outcome.passed else "FAILED"
    print(f"{outcome.name:50} {word} {outcome.seconds:6.1f} s  {outcome.detail[:300]}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
