"""Pages of this host: how device memory is reserved, and how freed memory is kept for the next step.

In: shapes, tensors, or the wish to keep pages. Out: tensors of zeros whose pages appear when they are first used, or
beside other work; and a C library that does not hand memory back to the system between two operators. A fresh page
costs several times as much as one that is already there, and a training step would ask for the same ones again and
again. Huge pages are asked for where many places far apart are used again and again; elsewhere, steps are as quick
without them, and on virtual machines their first use is slow.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import mmap
import os
import platform
import sys
import threading
from collections.abc import Iterable, Sequence
from functools import cache

import torch

KEEP_PAGES_VARIABLE = "OPENIPU_KEEP_PAGES"

_RESERVED_BYTES = 1 << 20  # from here on a tensor gets pages of its own
_HUGE_PAGE_BYTES = 2 << 20
_TOUCHED_BYTES = 8 << 20  # in one call: other threads wait for it when they map memory
_TOUCHED_SHARE = 0.5  # of free memory at most

_MADV_POPULATE_WRITE = 23  # of Linux's mman.h

# Parameters of mallopt, from the C library's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
_M_MMAP_MAX = -4

_LARGEST_INT = (1 << 31) - 1
_TOP_PAD_BYTES = 64 << 20
_MMAP_THRESHOLD_BYTES = 1 << 30

_scratch = threading.local()


def reserve_zeros(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Zeros. A large tensor takes no time and no memory until it is used."""
    count = math.prod(shape)
    if count * dtype.itemsize < _RESERVED_BYTES or not hasattr(mmap, "MAP_PRIVATE"):
        return torch.zeros(tuple(shape), dtype=dtype)
    # Private: a forked worker of a data loader must not write into the same weights.
    pages = mmap.mmap(-1, count * dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(pages, dtype=dtype, count=count).view(tuple(shape))


def reserve_scratch(count: int) -> torch.Tensor:
    """Numbers in float32, whatever they are, in huge pages if the system gives them."""
    if 4 * count < _RESERVED_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(count, dtype=torch.float32)
    size = (
        -(-4 * count // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES + _HUGE_PAGE_BYTES
    )  # one more, of which some is left out
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a system without them
        pages.madvise(mmap.MADV_HUGEPAGE)
    whole = torch.frombuffer(pages, dtype=torch.float32)
    start = -whole.data_ptr() % _HUGE_PAGE_BYTES // 4
    return whole[start : start + count]


def borrow_scratch(name: str, count: int) -> torch.Tensor:
    """Memory that this thread has used before under a name, and that may still be in the cache: for one call."""
    found: torch.Tensor | None = getattr(_scratch, name, None)
    if found is None or found.numel() < count:
        found = reserve_scratch(count)
        setattr(_scratch, name, found)
    return found


def touch_pages(tensors: Iterable[torch.Tensor]) -> threading.Thread | None:
    """Let the pages of reserved tensors appear in the background, in this order; their values stay as they are.

    A page that is read before it is written costs twice: first all such pages are one and the same page of zeros. None
    where there is nothing to gain: on a single core, or where the tensors would fill a good part of free memory.
    """
    reserved = [tensor for tensor in tensors if tensor.nbytes >= _RESERVED_BYTES and _starts_page(tensor)]
    enough = 0 < sum(tensor.nbytes for tensor in reserved) <= _read_free_bytes() * _TOUCHED_SHARE
    if not enough or (os.cpu_count() or 1) < 2 or not sys.platform.startswith("linux"):
        return None
    thread = threading.Thread(target=_touch, args=(reserved,), name="openipu-pages", daemon=True)
    thread.start()
    return thread


def _touch(tensors: list[torch.Tensor]) -> None:
    advise = _load_c_library().madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    while tensors:
        tensor = tensors.pop(0)
        for offset in range(0, tensor.nbytes, _TOUCHED_BYTES):
            length = min(_TOUCHED_BYTES, tensor.nbytes - offset)
            if advise(tensor.data_ptr() + offset, length, _MADV_POPULATE_WRITE) != 0:
                return  # a kernel before 5.14: pages appear when they are used


def _starts_page(tensor: torch.Tensor) -> bool:
    return tensor.data_ptr() % mmap.PAGESIZE == 0 and tensor.is_contiguous()


def _read_free_bytes() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    except (ValueError, OSError):
        return 0


@cache
def _load_c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@cache
def keep_pages() -> bool:
    """Let the C library keep freed memory, once for this process; says whether it does.

    Off with OPENIPU_KEEP_PAGES=0, and where the C library is not glibc.
    """
    if os.environ.get(KEEP_PAGES_VARIABLE, "1") == "0" or platform.libc_ver()[0] != "glibc":
        return False
    try:
        set_option = _load_c_library().mallopt
    except (OSError, AttributeError):
        return False
    # Some versions refuse so large a threshold: then no block gets pages of its own.
    if set_option(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES) != 1 and set_option(_M_MMAP_MAX, 0) != 1:
        return False
    return all(
        set_option(name, value) == 1
        for name, value in ((_M_TRIM_THRESHOLD, _LARGEST_INT), (_M_TOP_PAD, _TOP_PAD_BYTES))
    )


def reclaim_memory() -> None:
    """Free the programs that nobody holds any more. The nodes of a graph hold each other: without this they would stay,
    with all that they hold, until Python happens to look for cycles."""
    gc.collect()
    release_pages()


def release_pages() -> None:
    """Hand freed memory back to the system once: what preparing a program needed is no use for its steps."""
    if keep_pages():
        _load_c_library().malloc_trim(0)
