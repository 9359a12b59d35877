"""Runs the public programs of popxl, unmodified, and says which end well: those of its user guide, and the tutorials.

    OPENIPU_POPART_CHECKOUT=path/to/popart python tests/conformance/run_popxl.py guide [--page] [NAME ...]
    OPENIPU_EXAMPLES_CHECKOUT=path/to/examples python tests/conformance/run_popxl.py tutorials [--page] [NAME ...]

A checkout is only read. MNIST's files are made up in MNIST's own format, and where torchvision is not installed, what
the programs take of it to read them is stood in for. The tutorials need popxl_addons.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from programs import Program, Suite, run_suite
from run_popart_examples import write_digits

GUIDE, TUTORIALS = "docs/popxl/files", "tutorials/tutorials/popxl"
PLAIN = (
    *("autodiff", "basic_graph", "call_with_info", "code_loading", "code_loading_nested"),
    *("create_multi_graphs_from_same_func", "float8_inference", "in_sequence", "multi_call_graph_input"),
    *("multi_callsites_of_a_graph", "nested_session_contexts", "remote_rts_var", "remote_variable"),
    *(
        "remote_variable_replica_grouped",
        "repeat_graph_0",
        "repeat_graph_1",
        "repeat_graph_2",
        "replication",
        "rts_var",
    ),
    *("simple_addition", "tensor_addition", "tensor_get_write", "tensor_get_write_adv"),
)
DATA = "--datasets-dir data"
RTS = "--epochs 3 --batch-size 8 --lr 0.05 --test"
LEARNED = r"Accuracy on test set: (9\d|100)\."
DISTRIBUTED = "its own test leaves it out: it is for several machines"
GUIDE_NOT_RUN = {
    f"{GUIDE}: distributed_simple_example.py": f"{DISTRIBUTED}; passes variable() an argument that it has not",
    f"{GUIDE}: distributed_rts_simple_example.py": DISTRIBUTED,
    f"{GUIDE}: distributed_rts_simple_example_manual_remote_buffer.py": DISTRIBUTED,
    f"{GUIDE}: distributed_rts_complex_example.py": f"{DISTRIBUTED}; gathers along a group, which popxl refuses",
    f"{GUIDE}: run_leaky_relu.py": "compiles a C++ op against PopART's own headers",
}
TUTORIAL_PROGRAMS = tuple(
    Program(f"{TUTORIALS}/{folder}", "mnist.py", LEARNED)
    for folder in (
        *("1_basic_concepts", "2_custom_optimiser", "3_data_parallelism", "4_pipelining"),
        *("5_remote_variables_and_rts", "6_phased_execution"),
    )
)
TUTORIALS_NOT_RUN = {f"{TUTORIALS}/*/mnist_template.py": "templates with gaps to be filled in"}
TORCHVISION = '''\
"""What MNIST is read with, by torchvision's names."""

import types
from pathlib import Path

import numpy
import torch


class MNIST(torch.utils.data.Dataset):
    def __init__(self, root, train=True, download=False, transform=None):
        folder, name = Path(root).expanduser() / "MNIST" / "raw", "train" if train else "t10k"
        images = numpy.fromfile(folder / f"{name}-images-idx3-ubyte", numpy.uint8)[16:].reshape(-1, 28, 28)
        self.images = images.astype(numpy.float32) / 255
        self.labels = numpy.fromfile(folder / f"{name}-labels-idx1-ubyte", numpy.uint8)[8:].astype(int)
        self.transform = transform or (lambda image: image)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(self.images[index]), int(self.labels[index])


class Compose:
    def __init__(self, parts):
        self.parts = parts

    def __call__(self, image):
        for part in self.parts:
            image = part(image)
        return image


class ToTensor:
    def __call__(self, image):
        return torch.from_numpy(image).unsqueeze(0)


class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = mean[0], std[0]

    def __call__(self, image):
        return (image - self.mean) / self.std


datasets = types.SimpleNamespace(MNIST=MNIST)
transforms = types.SimpleNamespace(Compose=Compose, ToTensor=ToTensor, Normalize=Normalize)
'''


def prepare_guide(folder: Path) -> None:
    """Data beside the programs, and a stand-in for torchvision."""
    _write_data(folder / GUIDE / "data")
    _write_shim(folder)


def prepare_tutorials(folder: Path) -> None:
    """Data where the tutorials look for it: in their user's folder."""
    _write_data(folder / "home" / ".torch" / "datasets")
    _write_shim(folder)


def _write_data(folder: Path) -> None:
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    write_digits(raw, "train", 4000, seed=0)
    write_digits(raw, "t10k", 1000, seed=1)


def _write_shim(folder: Path) -> None:
    (folder / "shim").mkdir()
    if importlib.util.find_spec("torchvision") is None:
        (folder / "shim" / "torchvision.py").write_text(TORCHVISION)


SUITES = {
    "guide": Suite(
        title="popxl-guide",
        variable="OPENIPU_POPART_CHECKOUT",
        branch="of graphcore/popart",
        parts=(GUIDE,),
        programs=(
            *(Program(GUIDE, f"{name}.py") for name in PLAIN),
            Program(GUIDE, f"mnist.py {DATA} --epochs 3 --lr 0.05", LEARNED),
            Program(GUIDE, f"mnist_rts.py {DATA} {RTS}", LEARNED),
            Program(GUIDE, f"mnist_rts.py {DATA} {RTS} --replication-factor 2 --rts", LEARNED),
        ),
        not_run=GUIDE_NOT_RUN,
        prepare=prepare_guide,
        mark="popxl guide",
    ),
    "tutorials": Suite(
        title="popxl-tutorials",
        variable="OPENIPU_EXAMPLES_CHECKOUT",
        branch="v3.4.1 of graphcore/examples",
        parts=(TUTORIALS,),
        programs=TUTORIAL_PROGRAMS,
        not_run=TUTORIALS_NOT_RUN,
        prepare=prepare_tutorials,
        surround=lambda program, folder: {"HOME": str(folder / "home")},
        mark="popxl tutorials",
    ),
}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in SUITES:
        raise SystemExit(f"{__doc__}\nSay which: {' or '.join(SUITES)}.")
    chosen = SUITES[sys.argv.pop(1)]
    sys.exit(run_suite(chosen, __doc__))
