"""A kernel is found again under a key that holds all that its library depends on, and nothing else."""

import pytest
import torch

from openipu.graph import RunOptions, describe_options
from openipu.run.kernels import build, compiler
from openipu.run.kernels.build import make_kernel_key
from openipu.run.kernels.catalog import DIRECT_CONVOLUTION, GELU, KERNELS


def test_a_name_that_is_no_option_cannot_be_left_out():
    with pytest.raises(ValueError, match="There is no option teir"):
        describe_options(RunOptions(), without=("teir",))


@pytest.mark.parametrize(
    ("capability", "machine", "narrower"),
    [
        ("AVX512", "x86_64", []),
        ("AVX2", "x86_64", ["-mno-avx512f"]),
        ("DEFAULT", "x86_64", ["-mno-avx"]),
        ("DEFAULT", "aarch64", []),
    ],
)
def test_kernels_have_vectors_no_wider_than_pytorchs(monkeypatch, capability, machine, narrower):
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: capability)
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert [flag for flag in compiler.list_flags() if flag.startswith("-mno-")] == narrower


def test_each_kernel_and_each_geometry_has_a_key_of_its_own():
    geometries = [DIRECT_CONVOLUTION.specialize(HEIGHT=height) for height in (3, 4)]
    assert len({make_kernel_key(kernel) for kernel in (*KERNELS, *geometries)}) == len(KERNELS) + 2


def test_flags_and_sources_are_in_the_key(monkeypatch):
    keys = {make_kernel_key(GELU), make_kernel_key(GELU, ["-g"])}
    with monkeypatch.context() as patch:
        patch.setattr(build, "list_flags", lambda: ("-mno-fma",))
        keys.add(make_kernel_key(GELU))
    monkeypatch.setattr(build, "read_sources", lambda kernel: {kernel.source: "int other;"})
    keys.add(make_kernel_key(GELU))
    assert len(keys) == 4


def test_any_number_of_threads_runs_the_same_library():
    keys = set()
    for threads in (1, 2, 3):  # the next test has its own number again
        torch.set_num_threads(threads)
        keys.add(make_kernel_key(GELU))
    assert len(keys) == 1
