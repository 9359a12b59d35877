"""A file in C++ as a library in the user's cache.

In: the source. Out: a job for the compiling process; there, what the compiler makes of it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import torch

from openipu.run.native.build import NativeJob, make_native_key

# Products are added as one operation; operands are gathered by nobody but the source itself.
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-fno-tree-slp-vectorize")
_LIBRARY_FLAGS = ("-fopenmp", "-shared", "-fPIC")
# Where PyTorch uses narrower vectors than the machine has (ATEN_CPU_CAPABILITY), so does our code.
_NARROWER = {"AVX2": ("-mno-avx512f",), "DEFAULT": ("-mno-avx",)}


def write_source_job(name: str, source: str) -> NativeJob:
    """What the compiling process is told."""
    key = make_native_key({"kernel": name, "source": source, "flags": list_flags()})
    return NativeJob(key, name, source)


def compile_source(source: str, folder: Path) -> Path:
    """A library of a file in C++."""
    written, made = folder / "kernels.cpp", folder / "kernels.so"
    written.write_text(source)
    command = [_find_compiler(), *list_flags(), str(written), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["the C++ compiler failed without a word"])[0])
    return made


def list_flags() -> list[str]:
    """What the compiler is told."""
    narrower: tuple[str, ...] = ()
    if platform.machine() in ("x86_64", "AMD64"):
        narrower = _NARROWER.get(torch.backends.cpu.get_cpu_capability(), ())
    return [*_FLAGS, *narrower, *_LIBRARY_FLAGS]


def _find_compiler() -> str:
    wished = os.environ.get("CXX")
    usual = ("clang++",) if sys.platform == "darwin" else ("g++", "c++", "clang++")
    for name in (wished,) if wished else usual:
        found = shutil.which(name)
        if found is not None:
            return found
    raise FileNotFoundError(f"there is no C++ compiler: {wished or ', '.join(usual)}")
