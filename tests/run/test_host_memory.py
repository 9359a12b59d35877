"""Memory that appears when it is used, and stays when it is freed."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from openipu.run.memory.host_memory import KEEP_PAGES_VARIABLE, keep_pages, reserve_scratch, reserve_zeros, touch_pages

pytestmark = pytest.mark.slow

LARGE = (1 << 8, 1 << 10)  # 1 MiB of float32
POPULATE = (5, 14)  # the first Linux that lets pages appear on demand


def can_touch_pages():
    if sys.platform != "linux" or (os.cpu_count() or 1) < 2:
        return False
    return tuple(int(part) for part in platform.release().split(".")[:2]) >= POPULATE


def has_huge_pages_everywhere():
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return setting.exists() and "[always]" in setting.read_text()


touches = pytest.mark.skipif(not can_touch_pages(), reason="needs Linux 5.14 and two cores")
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
from openipu.run.memory.host_memory import keep_pages
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


@touches
def test_touched_pages_are_resident_and_keep_their_values():
    tensor = reserve_zeros((16 << 20,), torch.float32)  # 64 MiB
    tensor[5] = 7
    before = read_resident_bytes()
    thread = touch_pages([torch.zeros(3), tensor])
    assert thread is not None
    thread.join()
    assert read_resident_bytes() - before >= 60 << 20
    assert tensor[5] == 7
    assert tensor.count_nonzero() == 1


@touches
@pytest.mark.skipif(has_huge_pages_everywhere(), reason="counts faults of small pages")
def test_an_update_of_touched_state_takes_one_page_fault_where_it_would_take_two():
    script = """
import resource, sys
from openipu.run.memory.host_memory import reserve_zeros, touch_pages
import torch
state = reserve_zeros((8 << 20,), torch.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
if sys.argv[1] == "touch":
    touch_pages([state]).join()
state.mul_(0.9).add_(1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    faults = {}
    for mode in ("touch", "use"):
        done = subprocess.run([sys.executable, "-c", script, mode], capture_output=True, text=True, check=True)
        faults[mode] = int(done.stdout)
    pages = (32 << 20) // 4096
    assert faults["use"] >= 2 * pages
    assert faults["touch"] < 1.2 * pages


def test_nothing_is_touched_that_fills_memory_or_has_no_pages_of_its_own(monkeypatch):
    tensor = reserve_zeros(LARGE, torch.float32)
    assert touch_pages([torch.zeros(1 << 20)[1:]]) is None
    assert touch_pages([]) is None
    monkeypatch.setattr("openipu.run.memory.host_memory._read_free_bytes", lambda: 2 * tensor.nbytes - 1)
    assert touch_pages([tensor]) is None


@on_glibc
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_preparing_needed_is_handed_back():
    script = """
from openipu.run.memory.host_memory import keep_pages, release_pages
def read_resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
assert keep_pages()
before = read_resident_bytes()
blocks = [bytes([1]) * (1 << 20) for _ in range(64)]
blocks = None
kept = read_resident_bytes() - before
release_pages()
print(kept, read_resident_bytes() - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    kept, left = (int(number) for number in done.stdout.split())
    assert kept > 60 << 20
    assert left < 8 << 20


@pytest.mark.parametrize("count", [1, 1000, (1 << 18) + 3, 3 << 19, (1 << 21) + 1])
def test_scratch_is_as_large_as_asked_for_and_nobody_elses(count):
    first, second = reserve_scratch(count), reserve_scratch(count)
    first.fill_(1.0)
    second.fill_(2.0)
    assert first.shape == second.shape == (count,)
    assert bool((first == 1.0).all())
    assert bool((second == 2.0).all())
    if 4 * count >= 1 << 20:
        assert first.data_ptr() % (2 << 20) == 0, "a huge page begins here"
