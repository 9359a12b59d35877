"""Native code for convolutions with few channels: the compiled tier of programs that consist of such.

In: the `Geometry` of some convolutions. Out: a job for the compiling process; then the functions of the library that it
has made. There is no program around them: `use_direct_convolutions` puts them into the graph of the instant tier.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openipu.run.native.build import NativeJob, NativeProgram, make_native_key
from openipu.run.native.convolution_source import name_kernel, write_source
from openipu.run.passes.direct_convolutions import Geometry, Kernel

_NAME = "convolutions"
# Products are added as one operation; operands are gathered by nobody but the source itself.
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-fno-tree-slp-vectorize")
_LIBRARY_FLAGS = ("-fopenmp", "-shared", "-fPIC")
_ARGUMENTS = (*(ctypes.c_void_p,) * 4, ctypes.c_int64, ctypes.c_int)


def write_kernel_job(geometries: Sequence[Geometry]) -> NativeJob:
    """What the compiling process is told."""
    return write_source_job(_NAME, write_source(geometries))


def write_source_job(name: str, source: str) -> NativeJob:
    """The same for any file in C++."""
    key = make_native_key({"kernel": name, "source": source, "flags": [*_FLAGS, *_LIBRARY_FLAGS]})
    return NativeJob(key, {"units": [{"source": source}], "fold": 1, "threads": 1, "name": name})


def load_kernels(native: NativeProgram, geometries: Sequence[Geometry]) -> dict[Geometry, Kernel]:
    """The functions of the job's library. It stays in memory for as long as the process."""
    library = ctypes.CDLL(str(native.library))
    return {geometry: _load(library, geometry) for geometry in geometries}


def _load(library: ctypes.CDLL, geometry: Geometry) -> Kernel:
    function: Any = library[name_kernel(geometry)]
    function.argtypes, function.restype = _ARGUMENTS, None
    kernel: Kernel = function
    return kernel


def compile_source(source: str, folder: Path) -> Path:
    """A library of a file in C++, by the compiler that Inductor would use as well."""
    written, made = folder / "kernels.cpp", folder / "kernels.so"
    written.write_text(source)
    command = [_find_compiler(), *_FLAGS, *_LIBRARY_FLAGS, str(written), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["the C++ compiler failed without a word"])[0])
    return made


def _find_compiler() -> str:
    wished = os.environ.get("CXX")
    usual = ("clang++",) if sys.platform == "darwin" else ("g++", "c++", "clang++")
    for name in (wished,) if wished else usual:
        found = shutil.which(name)
        if found is not None:
            return found
    raise FileNotFoundError(f"there is no C++ compiler: {wished or ', '.join(usual)}")
