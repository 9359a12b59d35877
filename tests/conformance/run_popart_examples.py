"""Runs the PopART programs of graphcore/tutorials (branch sdk-release-3.0), unmodified, and says which end well.

    OPENIPU_TUTORIALS_CHECKOUT=path/to/tutorials python tests/conformance/run_popart_examples.py [--json OUT] [NAME ...]

The checkout is only read: what is needed of it is copied to a temporary folder, with MNIST's files, made up in MNIST's
own format, beside the programs that read them. Each program is a process of its own; their own tests run, too.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from programs import Program, Suite, run_suite

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


def prepare(folder: Path) -> None:
    """Shims and data."""
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


SUITE = Suite(
    title="popart",
    variable=CHECKOUT_VARIABLE,
    branch=BRANCH,
    parts=PARTS,
    programs=PROGRAMS,
    not_run=NOT_RUN,
    prepare=prepare,
)

if __name__ == "__main__":
    sys.exit(run_suite(SUITE, __doc__))
