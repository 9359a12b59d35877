"""Kernels with sizes 0 and 1, odd sizes and strided operands: by every compiler that is there, and under sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from kernel_calls import check_kernels, list_all

from openipu.run.kernels import KernelProvider
from openipu.store import open_store

CALLS = Path(__file__).parents[1] / "kernel_calls.py"


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_kernels_of_every_compiler_compute_what_operators_do(tmp_path, monkeypatch, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    monkeypatch.setenv("CXX", compiler)
    (tmp_path / "cache").mkdir(mode=0o700)
    provider = KernelProvider(open_store(tmp_path / "cache"))
    library = provider.obtain(list_all())
    assert len(library) == len(list_all())
    for threads in (1, 3):
        torch.set_num_threads(threads)
        assert check_kernels(library) > 200


def find_runtime(name: str) -> str | None:
    """The sanitizer's library, if g++ has one."""
    if shutil.which("g++") is None:
        return None
    found = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    return found if os.path.isabs(found) and os.path.exists(found) else None


@pytest.mark.slow
def test_no_kernel_reads_or_writes_beside_its_operands(tmp_path):
    runtimes = [find_runtime(name) for name in ("libasan.so", "libubsan.so")]
    if None in runtimes or not sys.platform.startswith("linux"):
        pytest.skip("needs the address and undefined behaviour sanitizers of g++")
    (tmp_path / "cache").mkdir(mode=0o700)
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
        "CXX": "g++",
        "OMP_NUM_THREADS": "1",
    }
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
    done = subprocess.run(
        [sys.executable, str(CALLS), str(tmp_path / "cache"), *flags], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("calls") == 2
