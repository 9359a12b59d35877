"""Pages of this host: how device memory is reserved, and how freed memory is kept for the next step.

In: shapes, or the wish to keep pages. Out: tensors of zeros whose pages appear when they are first written, on huge
pages where the system has them; and a C library that does not hand memory back to the system between two operators. A
fresh page costs several times as much as one that is already there, and a training step would ask for the same ones
again and again.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import torch

KEEP_PAGES_VARIABLE = "OPENIPU_KEEP_PAGES"

_RESERVED_BYTES = 1 << 20  # from here on a tensor gets pages of its own

# Parameters of mallopt, from the C library's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
_M_MMAP_MAX = -4

_LARGEST_INT = (1 << 31) - 1
_TOP_PAD_BYTES = 64 << 20
_MMAP_THRESHOLD_BYTES = 1 << 30


def reserve_zeros(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Zeros. A large tensor takes no time and no memory until it is used."""
    count = math.prod(shape)
    if count * dtype.itemsize < _RESERVED_BYTES or not hasattr(mmap, "MAP_PRIVATE"):
        return torch.zeros(tuple(shape), dtype=dtype)
    # Private: a forked worker of a data loader must not write into the same weights.
    pages = mmap.mmap(-1, count * dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages: small ones do
            pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=dtype, count=count).view(tuple(shape))


@cache
def keep_pages() -> bool:
    """Let the C library keep freed memory, once for this process; says whether it does.

    Off with OPENIPU_KEEP_PAGES=0, and where the C library is not glibc.
    """
    if os.environ.get(KEEP_PAGES_VARIABLE, "1") == "0" or platform.libc_ver()[0] != "glibc":
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    # Some versions refuse so large a threshold: then no block gets pages of its own.
    if set_option(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES) != 1 and set_option(_M_MMAP_MAX, 0) != 1:
        return False
    return all(
        set_option(name, value) == 1
        for name, value in ((_M_TRIM_THRESHOLD, _LARGEST_INT), (_M_TOP_PAD, _TOP_PAD_BYTES))
    )
