"""Builds and runs the public C++ programs for Poplar, as they are, against openipu's headers and library.

In: a checkout of graphcore/examples or of graphcore/tutorials (a branch before its files were moved), which is not
changed: each program is copied to a folder of its own and built by its own Makefile. Out: a line for each run, and exit
code 1 if one of them fails; with --page also the counts in docs/conformance.md. Expectations are those of the programs'
own tests. Nothing of them is kept here.

    python tests/conformance/run_poplar_cpp.py --checkout ../examples [-k tut6] [--keep folder] [--page]
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"
START, END = "<!-- poplar: made by tests/conformance/run_poplar_cpp.py -->", "<!-- end of poplar -->"
CHECKOUT_VARIABLE = "OPENIPU_EXAMPLES_CHECKOUT"
MINUTES = 10
_MATRIX = ("Multiplying matrix of size 10000x1000 by vector of size 1000", "Multiplication result OK")
_FILES = {"train-images-idx3-ubyte": (60000, 28, 28), "train-labels-idx1-ubyte": (60000,)}


def write_digits(folder: Path) -> None:
    """Files in MNIST's own format: a mark at a place that says the digit, so that a linear model can learn it."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 10, 60000).astype(np.uint8)
    images = generator.integers(0, 40, (60000, 28, 28)).astype(np.uint8)
    for digit in range(10):
        row, column = 2 + 12 * (digit // 5), 2 + 5 * (digit % 5)
        images[labels == digit, row : row + 10, column : column + 4] += 180
    data = folder / "data"
    data.mkdir()
    for name, content in zip(_FILES, (images, labels), strict=True):
        shape = _FILES[name]
        magic = 0x800 + len(shape)
        head = np.array([magic, *shape], dtype=">u4").tobytes()
        (data / name).write_bytes(head + content.tobytes())


@dataclass(frozen=True)
class Run:
    """One program: where its folder is, how it is built there, what is run, and what that must print."""

    name: str
    folder: str
    build: str
    command: str
    expected: tuple[str, ...]
    at: str = "."  # where `command` runs
    build_at: str = "."
    prepare: Callable[[Path], None] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def _tutorial(name: str, folder: str, build: str, command: str, *expected: str, **more: object) -> Run:
    return Run(name, f"tutorials/poplar/{folder}", build, command, expected, **more)  # type: ignore[arg-type]


RUNS = (
    _tutorial(
        "tut1, model",
        "tut1_variables",
        "make tut1_ipu_model_complete",
        "./tut1_ipu_model_complete",
        "Program complete",
        "h3 data:",
        "0 1 1.5 2",
        r"v4-1: \[10 11 12 13 14 15 16 17 18 19\]",
        at="tests",
        build_at="tests",
    ),
    _tutorial(
        "tut1, hardware",
        "tut1_variables",
        "make tut1_ipu_hardware_complete",
        "./tut1_ipu_hardware_complete",
        "Attached to IPU",
        "Program complete",
        "0 1 1.5 2",
        r"v4-1: \[10 11 12 13 14 15 16 17 18 19\]",
        at="tests",
        build_at="tests",
    ),
    _tutorial(
        "tut2",
        "tut2_operations",
        "make all",
        "./tut2_complete",
        "Program complete",
        r"v3: \[\W+\[5.0000000 4.5000000\]\W+\[4.0000000 3.5000000]\W+\]",
        r"v4: \[\W+\[9.0000000 7.5000000\]\W+\[6.0000000 4.5000000]\W+\]",
        r"v5: \[\W+\[5.0000000 3.5000000\]\W+\[5.0000000 3.5000000]\W+\]",
        at="tests",
        build_at="tests",
    ),
    _tutorial(
        "tut3",
        "tut3_vertices",
        "make all",
        "./tut3_complete",
        "Program complete",
        r"v2: \[7.0000000 6.0000000 4.5000000 2.5000000\]",
        at="complete",
        build_at="tests",
    ),
    _tutorial(
        "tut4, model",
        "tut4_profiling",
        "make tut4_ipu_model",
        "./tut4_ipu_model",
        "Program complete",
        "Memory Usage:",
        at="tests",
        build_at="tests",
    ),
    _tutorial(
        "tut4, hardware",
        "tut4_profiling",
        "make tut4_ipu_hardware",
        "./tut4_ipu_hardware",
        "Program complete",
        "Memory Usage:",
        at="tests",
        build_at="tests",
    ),
    _tutorial(
        "tut4, libpva",
        "tut4_profiling",
        "make tut4_ipu_model cpp_example",
        "./tut4_ipu_model && ./cpp_example",
        "Example information from profile",
        r"Number of tiles on target: 1472",
        at="tests",
        build_at="tests",
        environment={"POPLAR_ENGINE_OPTIONS": '{"autoReport.all": "true", "autoReport.directory": "."}'},
    ),
    _tutorial(
        "tut5, model",
        "tut5_matrix_vector",
        "make tut5",
        "./tut5 40 50",
        "Multiplying matrix of size 40x50 by vector of size 50",
        "Multiplication result OK",
        at="complete",
        build_at="complete",
    ),
    _tutorial(
        "tut5, hardware",
        "tut5_matrix_vector",
        "make tut5_ipu",
        "./tut5_ipu 40 50",
        "Multiplying matrix of size 40x50 by vector of size 50",
        "Multiplication result OK",
        at="complete",
        build_at="complete",
    ),
    _tutorial(
        "tut6, Mk1",
        "tut6_matrix_vector_opt",
        "make all",
        "./tut6 10000 1000 --device model-ipu1",
        "Worst cost seen: 64373",
        *_MATRIX,
    ),
    _tutorial(
        "tut6, Mk2",
        "tut6_matrix_vector_opt",
        "make all",
        "./tut6 10000 1000 --device model-ipu2",
        "Worst cost seen: 53807",
        r"colsAxisSplit=7, total cost=3996 \(compute cost=3696, exchange cost=143, "
        r"reduce exchange cost=49, reduce compute cost=108\)",
        *_MATRIX,
    ),
    _tutorial(
        "tut6, hardware",
        "tut6_matrix_vector_opt",
        "make all",
        "./tut6 10000 1000 --device ipu",
        "Worst cost seen: 53807",
        *_MATRIX,
    ),
    Run(
        "prefetch",
        "feature_examples/poplar/prefetch",
        "make",
        "./prefetch",
        ("Running", "complete", "prefetch"),
    ),
    Run(
        "advanced example, model",
        "feature_examples/poplar/advanced_example",
        "make",
        "./example --model",
        ("Results match.", "Using IPU model"),
    ),
    Run(
        "advanced example, hardware",
        "feature_examples/poplar/advanced_example",
        "make",
        "./example",
        ("Using HW device ID", "Results match."),
    ),
    Run(
        "advanced example, saved",
        "feature_examples/poplar/advanced_example",
        "make",
        "./example --model --save-exe --exe-name kept && ./example --model --load-exe --exe-name kept",
        (r"Results match\.[\s\S]*Results match\.",),
    ),
    Run(
        "mnist, model",
        "simple_applications/poplar/mnist",
        "make all",
        "./regression-demo 1 1.0",
        ("Using the IPU Model", "Epoch", "100%", r"Epoch 1 \(100%\), accuracy \d\d"),
        prepare=write_digits,
    ),
    Run(
        "mnist, hardware",
        "simple_applications/poplar/mnist",
        "make all",
        "./regression-demo -IPU 1 1.0",
        ("Using the IPU", "Epoch", "100%"),
        prepare=write_digits,
    ),
)


def find_root(checkout: Path) -> Path:
    """graphcore/examples has a folder more than graphcore/tutorials."""
    for root in (checkout / "tutorials", checkout):
        if (root / "tutorials/poplar/tut1_variables/complete").is_dir():
            return root
    sys.exit(
        f"{checkout} has no tutorials/poplar with complete programs: name a checkout of graphcore/examples by "
        f"--checkout or {CHECKOUT_VARIABLE}."
    )


def read_environment() -> dict[str, str]:
    """What `openipu cxx-flags --environment` says, and our own commands first on the path."""
    scripts = Path(sysconfig.get_path("scripts"))
    told = subprocess.run(
        [str(scripts / "openipu"), "cxx-flags", "--environment"], check=True, capture_output=True, text=True
    ).stdout
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    for line in told.splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        (first,) = shlex.split(value.partition("${")[0])
        environment[name] = first
    return environment


def try_run(run: Run, root: Path, folder: Path, environment: Mapping[str, str]) -> str:
    """Empty if all is as expected, else what is not."""
    place = folder / re.sub(r"\W+", "_", run.name)
    shutil.copytree(root / run.folder, place)
    if run.prepare is not None:
        run.prepare(place)
    for command, at in ((run.build, run.build_at), (run.command, run.at)):
        try:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=place / at,
                env={**environment, **run.environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=60 * MINUTES,
            )
        except subprocess.TimeoutExpired:
            return f"`{command}` took more than {MINUTES} minutes"
        (place / ("build.log" if command is run.build else "run.log")).write_text(done.stdout, encoding="utf-8")
        if done.returncode != 0:
            last = "\n    ".join(done.stdout.strip().splitlines()[-12:])
            return f"`{command}` ended with code {done.returncode}:\n    {last}"
    missing = [pattern for pattern in run.expected if re.search(pattern, done.stdout) is None]
    return f"not in the output: {missing}" if missing else ""


def write_section(problems: Mapping[str, str]) -> str:
    """A row for each program and what of it ran; a reason where one fails."""
    programs: dict[str, list[str]] = {}
    for run in RUNS:
        programs.setdefault(run.folder, []).append(run.name)
    passed = sum(not problem for problem in problems.values())
    lines = [f"**{passed} of {len(problems)} runs of {len(programs)} programs pass.**", ""]
    lines += ["| Program | Runs | Fails |", "|---|---|---|"]
    for folder, names in programs.items():
        failing = "; ".join(f"{name}: {problems[name].splitlines()[0]}" for name in names if problems[name])
        lines.append(f"| `{folder}` | {'; '.join(names)} | {failing or 'nothing'} |")
    return "\n".join(lines)


def write_page(text: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    _, found, after = rest.partition(END)
    if not found:
        sys.exit(f"The page has no {START} … {END}.")
    PAGE.write_text(f"{before}{START}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--checkout", type=Path, default=os.environ.get(CHECKOUT_VARIABLE))
    parser.add_argument("-k", dest="only", default="", help="only runs whose names contain this")
    parser.add_argument("--keep", type=Path, help="a folder for builds and outputs, which stays")
    parser.add_argument("--page", action="store_true", help="write the counts into docs/conformance.md")
    options = parser.parse_args()
    if options.page and options.only:
        parser.error("--page needs all runs: leave -k out")
    if options.checkout is None:
        parser.error(f"name a checkout of graphcore/examples by --checkout or {CHECKOUT_VARIABLE}")
    root = find_root(options.checkout.resolve())
    environment = read_environment()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="openipu-poplar-cpp-"))
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [run for run in RUNS if options.only in run.name]
    problems: dict[str, str] = {}
    for run in chosen:
        started = time.perf_counter()
        problem = problems[run.name] = try_run(run, root, folder, environment)
        state, seconds = "FAILED" if problem else "passed", time.perf_counter() - started
        print(f"{state:7} {run.name:28} {seconds:6.1f} s  {problem}", flush=True)
    failed = sum(map(bool, problems.values()))
    print(f"{len(chosen) - failed} of {len(chosen)} passed")
    if options.page:
        write_page(write_section(problems))
    if options.keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
