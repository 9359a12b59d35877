"""Memory that appears when it is used, and stays when it is freed."""

import platform
import subprocess
import sys

import pytest
import torch

from openipu.run.host_memory import KEEP_PAGES_VARIABLE, keep_pages, reserve_zeros

LARGE = (1 << 8, 1 << 10)  # 1 MiB of float32
on_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to keep pages")


def read_resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.fixture
def fresh_decision():
    keep_pages.cache_clear()
    yield
    keep_pages.cache_clear()


@pytest.mark.parametrize("shape", [(), (3,), (0, 4), LARGE, (1 << 20, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_reserved_memory_is_zero_and_can_be_written(shape, dtype):
    tensor = reserve_zeros(shape, dtype)
    assert tensor.shape == torch.Size(shape)
    assert tensor.dtype is dtype
    assert not tensor.any()
    tensor.fill_(1)
    assert bool((tensor == 1).all())


def test_large_tensors_start_on_a_cache_line_and_do_not_overlap():
    first, second = reserve_zeros(LARGE, torch.float32), reserve_zeros(LARGE, torch.float32)
    assert first.data_ptr() % 64 == second.data_ptr() % 64 == 0
    first.fill_(1)
    assert not second.any()


def test_a_view_outlives_the_tensor():
    row = reserve_zeros(LARGE, torch.float32)[3]
    row += 2
    assert row.sum().item() == 2 * LARGE[1]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_reserved_memory_is_not_resident_before_it_is_used():
    before = read_resident_bytes()
    tensor = reserve_zeros((64 << 20,), torch.float32)  # 256 MiB
    assert read_resident_bytes() - before < 16 << 20
    tensor[: 16 << 20].fill_(1)
    assert read_resident_bytes() - before >= 64 << 20


@on_glibc
def test_pages_are_kept_unless_the_user_says_no(fresh_decision, monkeypatch):
    monkeypatch.setenv(KEEP_PAGES_VARIABLE, "0")
    assert keep_pages() is False
    keep_pages.cache_clear()
    monkeypatch.delenv(KEEP_PAGES_VARIABLE)
    assert keep_pages() is True


@on_glibc
@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults")
def test_memory_that_is_freed_and_asked_for_again_costs_no_page_faults():
    script = """
import ctypes, resource, sys
from openipu.run.host_memory import keep_pages
if sys.argv[1] == "keep":
    assert keep_pages()
library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]
def use(size=64 << 20):
    block = library.malloc(size)
    ctypes.memset(block, 1, size)
    library.free(block)
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    faults = {}
    for mode in ("keep", "return"):
        done = subprocess.run([sys.executable, "-c", script, mode], capture_output=True, text=True, check=True)
        faults[mode] = int(done.stdout)
    assert faults["keep"] < 100
    assert faults["return"] > 10 * max(1, faults["keep"])
