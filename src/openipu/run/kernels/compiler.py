"""The C++ compiler of this machine, and how it is called.

In: a kernel. Out: the commands that may make its library, best first. `CXX` chooses a compiler.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from openipu.run.kernels.kernel import CPP_FOLDER, Kernel

# Products are added as one operation; the vectors of the source are those that are used.
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-fno-tree-slp-vectorize", "-shared", "-fPIC")
# Where PyTorch uses narrower vectors than the machine has (ATEN_CPU_CAPABILITY), so do kernels.
_NARROWER = {"AVX2": ("-mno-avx512f",), "DEFAULT": ("-mno-avx",)}
_COMPILERS = ("clang++", "c++") if sys.platform == "darwin" else ("g++", "c++", "clang++")


def find_compiler() -> str | None:
    """The path of the compiler, if there is one."""
    wished = os.environ.get("CXX")
    names: Iterable[str] = (wished,) if wished else _COMPILERS
    return next((found for name in names if (found := shutil.which(name)) is not None), None)


def list_flags() -> tuple[str, ...]:
    """What the compiler is told, whatever the kernel."""
    narrower: tuple[str, ...] = ()
    if platform.machine() in ("x86_64", "AMD64"):
        narrower = _NARROWER.get(torch.backends.cpu.get_cpu_capability(), ())
    return (*_FLAGS, *narrower)


def write_commands(kernel: Kernel, compiler: str, target: Path, further: Sequence[str] = ()) -> list[list[str]]:
    """Commands that make a kernel's library. The second one is for a compiler without OpenMP: one thread."""
    constants = [f"-D{name}={value}" for name, value in kernel.constants]
    command = [compiler, *list_flags(), *further, *constants, str(CPP_FOLDER / kernel.source), "-o", str(target)]
    return [[*command[:-2], "-fopenmp", *command[-2:]], command]


def read_sources(kernel: Kernel) -> dict[str, str]:
    """The files that a kernel is made of: its own, and all headers."""
    paths = [CPP_FOLDER / kernel.source, *sorted(CPP_FOLDER.glob("*.hpp"))]
    return {path.name: path.read_text(encoding="utf-8") for path in paths}
