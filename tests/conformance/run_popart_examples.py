"""Runs the PopART programs of graphcore/tutorials (branch sdk-release-3.0), unmodified, and says which end well.

    OPENIPU_TUTORIALS_CHECKOUT=path/to/tutorials python tests/conformance/run_popart_examples.py [--json OUT] [NAME ...]

The checkout is only read: what is needed of it is copied to a temporary folder, with MNIST's files, made up in MNIST's
own format, beside the programs that read them. Each program is a process of its own; their own tests run, too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

CHECKOUT_VARIABLE = "OPENIPU_TUTORIALS_CHECKOUT"
BRANCH = "sdk-release-3.0"
FEATURES, APPLICATIONS, KERNELS = "feature_examples/popart", "simple_applications/popart", "kernel_benchmarks/popart"
PARTS = (FEATURES, APPLICATIONS, KERNELS, "utils")
MNIST = f"{APPLICATIONS}/mnist"
SHORT = "--iters 2 --batches-per-step 2"
TRAINED = "--batch-size 8 --batches-per-step 100 --epochs 2 --validation-final-epoch"
NOT_RUN = {  # each with its reason
    f"{FEATURES}/custom_operators/cube_op_example": "a C++ program against the SDK's headers",
    f"{FEATURES}/sharding: multi_ipu.py --mode eval": "gives only some ops a virtual graph, which PopART refuses",
    f"{FEATURES}/sharding: multi_ipu.py --mode train": "calls popart.SGD(0.01), which takes a dict",
    f"{FEATURES}/custom_operators/leaky_relu_example: test_lrelu.py": "calls make, which needs the SDK's headers",
}
# NumPy 2.3 took out what the programs read MNIST with; they ask for NumPy 1.19 or later.
SHIM = """\
import numpy

def fromstring(string, dtype=float, count=-1, *, sep="", **others):
    return numpy.frombuffer(string, dtype, count).copy() if sep == "" else _fromstring(string, dtype, count, sep=sep)

_fromstring, numpy.fromstring = numpy.fromstring, fromstring
"""
# A C++ op cannot be compiled here: what it computes is registered in Python, as its user would do.
LEAKY = f"{FEATURES}/custom_operators/leaky_relu_example"
LEAKY_SHIM = """\
import ctypes

import openipu
import torch

openipu.register_custom_op(
    "LeakyRelu",
    "custom.ops",
    1,
    forward=lambda inputs, attributes: [torch.nn.functional.leaky_relu(inputs[0], attributes.get("alpha", 0.02))],
)
ctypes.cdll.LoadLibrary = lambda path: None
"""


@dataclass(frozen=True)
class Program:
    """A command, and what it must print."""

    folder: str
    words: str
    expected: str = ""  # a pattern in its output
    accuracy: float = 0.0  # in percent, at least, if it prints one
    shim: str = "shim"  # the folder of what is imported first

    @property
    def name(self) -> str:
        return f"{self.folder}: {self.words}"


PROGRAMS = (
    Program(f"{FEATURES}/callbacks", "callbacks.py --data-size 1000", "Add:0.*Mul:0|Mul:0.*Add:0"),
    Program(LEAKY, "run_leaky_relu.py --alpha 0.5 -0.5 1.5", r"LeakyRelu:0': array\(\[-0.25,  1.5 ", shim="leaky"),
    Program(LEAKY, "run_leaky_relu.py --ipu -0.5 1.5", r"LeakyRelu:0': array\(\[-0.01,  1.5 ", shim="leaky"),
    Program(f"{FEATURES}/phased_execution", f"phased_execution.py {SHORT}", "items/s"),
    Program(
        f"{FEATURES}/phased_execution",
        f"phased_execution.py --sharded-execution {SHORT}",
        "items/s",
    ),
    Program(f"{FEATURES}/pipelining", "pipelining.py"),
    Program(f"{FEATURES}/pipelining", "pipelining.py --no_pipelining"),
    Program(f"{FEATURES}/pipelining", "pipelining.py --export model.onnx"),
    Program(f"{FEATURES}/pipelining", "-m pytest -q -p no:cacheprovider test_pipelining.py", "2 passed"),
    Program(f"{FEATURES}/recomputing", "recomputing.py"),
    Program(f"{FEATURES}/recomputing", "recomputing.py --recomputing AUTO"),
    Program(f"{FEATURES}/recomputing", "recomputing.py --recomputing OFF --show-logs"),
    Program(f"{FEATURES}/recomputing", "-m pytest -q -p no:cacheprovider test_recomputing.py", "2 passed"),
    Program(f"{FEATURES}/sharding", "multi_ipu.py --shards 2 --batch-size 10 --batches-per-step 100", "items/sec"),
    Program(f"{FEATURES}/sharding", "multi_ipu.py --mode eval --shards 1 --batches-per-step 9", "items/sec"),
    Program(KERNELS, "conv.py --batches-per-step 2 --steps 1", "items/sec"),
    Program(KERNELS, "conv.py --mode eval --use-generated-data --batches-per-step 2 --steps 1", "items/sec"),
    Program(KERNELS, "conv.py --mode train --use-generated-data --batches-per-step 2 --steps 1", "items/sec"),
    Program(KERNELS, "lstm.py --timesteps 25 --batches-per-step 2 --report-hw-cycle-count 1", "cycle count"),
    Program(KERNELS, 'lstm.py --lstm-options={"availableMemoryProportion":"0.55"} --simulation', "items/sec"),
    Program(KERNELS, "lstm.py --mode eval --use-generated-data --save-graph", "items/sec"),
    Program(KERNELS, "lstm.py --mode train --use-generated-data", "items/sec"),
    Program(MNIST, f"popart_mnist.py {TRAINED}", accuracy=90),
    Program(MNIST, f"popart_mnist.py {TRAINED} --num-ipus 2", accuracy=90),
    Program(MNIST, f"popart_mnist.py {TRAINED} --num-ipus 2 --replication-factor 2", accuracy=90),
    Program(MNIST, f"popart_mnist.py {TRAINED} --num-ipus 2 --pipeline", accuracy=90),
    Program(MNIST, f"popart_mnist.py {TRAINED} --num-ipus 4 --replication-factor 2 --pipeline", accuracy=90),
    Program(MNIST, f"popart_mnist.py {TRAINED} --simulation --log-graph-trace", accuracy=90),
    Program(MNIST, f"popart_mnist.py {TRAINED} --test-mode training", "Hardware cycle count per 'run'"),
    Program(MNIST, f"popart_mnist.py {TRAINED} --test-mode inference --syn-data-type zeros", "Hardware cycle count"),
    Program(MNIST, f"popart_mnist_conv.py {TRAINED}", accuracy=90),
    Program(MNIST, f"popart_mnist_conv.py {TRAINED} --log-graph-trace", accuracy=90),
    Program(MNIST, "popart_mnist_conv.py --batch-size 1 --batches-per-step 1 --epochs 0 --simulation"),
)


@dataclass(frozen=True)
class Outcome:
    """How one program ended."""

    name: str
    passed: bool
    seconds: float
    detail: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names, such as lstm; all of them when none is given")
    parser.add_argument("--json", type=Path, help="write the outcomes to this file")
    parser.add_argument("--timeout", type=int, default=600, help="seconds that a program may take")
    parser.add_argument("--verbose", action="store_true", help="show what the programs print")
    options = parser.parse_args()
    checkout = Path(os.environ.get(CHECKOUT_VARIABLE, ""))
    if not all((checkout / part).is_dir() for part in PARTS):
        print(f"Set {CHECKOUT_VARIABLE} to a checkout of graphcore/tutorials, branch {BRANCH}.", file=sys.stderr)
        return 2
    wanted = [entry for entry in PROGRAMS if not options.names or any(name in entry.name for name in options.names)]
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="popart-examples-") as place:
        folder = Path(place)
        prepare(checkout, folder)
        outcomes = [run_program(program, folder, options) for program in wanted]
    failed = sum(not outcome.passed for outcome in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed")
    for name, reason in NOT_RUN.items():
        print(f"    not run: {name} ({reason})")
    if options.json:
        options.json.write_text(json.dumps([vars(outcome) for outcome in outcomes], indent=1))
    return 1 if failed else 0


def prepare(checkout: Path, folder: Path) -> None:
    """The programs with their neighbours, and data."""
    for part in PARTS:
        shutil.copytree(checkout / part, folder / part)
    (folder / "shim").mkdir()
    (folder / "shim" / "sitecustomize.py").write_text(SHIM)
    (folder / "leaky").mkdir()
    (folder / "leaky" / "sitecustomize.py").write_text(LEAKY_SHIM)
    (folder / LEAKY / "build").mkdir()
    (folder / LEAKY / "build" / "custom_ops.so").touch()
    data = folder / MNIST / "data"
    data.mkdir()
    write_digits(data, "train", 4000, seed=0)
    write_digits(data, "t10k", 1000, seed=1)


def write_digits(folder: Path, name: str, count: int, seed: int) -> None:
    """Images of ten kinds in MNIST's format: strokes of a kind's own, shifted and with noise."""
    kinds = np.random.default_rng(1971).random((10, 7, 7)) > 0.6
    source = np.random.default_rng(seed)
    labels = source.integers(0, 10, count).astype(np.uint8)
    images = np.zeros((count, 28, 28))
    images[:, 2:23, 2:23] = kinds[labels].repeat(3, 1).repeat(3, 2)
    for index, (down, right) in enumerate(source.integers(0, 4, (count, 2))):
        images[index] = np.roll(images[index], (down, right), (0, 1))
    pixels = (images * 200 + source.integers(0, 56, images.shape)).astype(np.uint8)
    header = np.array([2051, count, 28, 28], ">u4").tobytes()
    (folder / f"{name}-images-idx3-ubyte").write_bytes(header + pixels.tobytes())
    (folder / f"{name}-labels-idx1-ubyte").write_bytes(np.array([2049, count], ">u4").tobytes() + labels.tobytes())


def run_program(program: Program, folder: Path, options: argparse.Namespace) -> Outcome:
    paths = [str(folder / program.shim), str(folder / "utils"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONDONTWRITEBYTECODE": "1"}
    started = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, *program.words.split()],
            cwd=folder / program.folder,
            env=environment,
            timeout=options.timeout,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return report(Outcome(program.name, False, options.timeout, f"more than {options.timeout} s"))
    seconds = round(time.monotonic() - started, 1)
    if options.verbose:
        print(done.stdout + done.stderr)
    detail = judge(program, done)
    return report(Outcome(program.name, not detail, seconds, detail))


def judge(program: Program, done: subprocess.CompletedProcess[str]) -> str:
    """What is wrong with how a program ended; nothing if all is well."""
    if done.returncode != 0:
        lines = [line for line in (done.stderr.strip() or done.stdout.strip()).splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {done.returncode}"
    if program.expected and not re.search(program.expected, done.stdout, re.DOTALL):
        return f"its output has no {program.expected!r}"
    if program.accuracy:
        found = [float(number) for number in re.findall(r"Accuracy=([\d.]+)%", done.stdout)]
        if not found or found[-1] < program.accuracy:
            return f"its accuracy is {found[-1] if found else 'not printed'}, not {program.accuracy:g} % or more"
    return ""


def report(outcome: Outcome) -> Outcome:
    word = "passed" if outcome.passed else "FAILED"
    print(f"{outcome.name:110} {word} {outcome.seconds:6.1f} s  {outcome.detail[:300]}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
