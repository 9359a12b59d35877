"""Memory that other processes of this program see too: where tensors lie that compiled codelets work on.

In: sizes. Out: arrays in one file of the main memory, which belongs to this process and vanishes with it. Pages cost
nothing until they are written, and are given back when an array is gone.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import weakref
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from openipu.errors import MappedRunError

CAPACITY_BYTES = 256 << 30  # of addresses; only what is used takes memory
_PAGE = 4096


class SharedMemory:
    """One stretch of addresses. Parts of it are taken and given back by pages."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity = capacity_bytes
        self.descriptor = os.memfd_create("openipu-tensors", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, capacity_bytes)
        self._map = mmap.mmap(self.descriptor, capacity_bytes)
        self.base = int(np.frombuffer(self._map, dtype=np.uint8, count=1).ctypes.data)
        self._free = {0: capacity_bytes}  # start -> bytes
        self._lock = threading.Lock()

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """An array of zeros. Its memory is free again when nothing refers to it."""
        size = max(1, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        size = -(-size // _PAGE) * _PAGE
        start = self._take(size)
        whole: npt.NDArray[np.uint8] = np.ndarray((size,), np.uint8, self._map, start)
        weakref.finalize(whole, self._give_back, start, size)
        used = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return whole[:used].view(dtype).reshape(shape)

    def locate(self, array: npt.NDArray[Any]) -> int | None:
        """Where an array begins in here; None for memory of this process alone."""
        offset = int(array.__array_interface__["data"][0]) - self.base
        return offset if 0 <= offset < self.capacity else None

    def _take(self, size: int) -> int:
        with self._lock:
            for start, free in self._free.items():
                if free >= size:
                    del self._free[start]
                    if free > size:
                        self._free[start + size] = free - size
                    return start
        raise MappedRunError(
            f"Tensors that C++ codelets work on need {size >> 20} MiB more than the {self.capacity >> 30} GiB that "
            "there are for them. Use smaller tensors."
        )

    def _give_back(self, start: int, size: int) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._map.madvise(mmap.MADV_REMOVE, start, size)
        with self._lock:
            self._free[start] = size
            merged: dict[int, int] = {}
            last = -1
            for begin in sorted(self._free):
                if last >= 0 and last + merged[last] == begin:
                    merged[last] += self._free[begin]
                else:
                    merged[begin] = self._free[begin]
                    last = begin
            self._free = merged


@cache
def find_shared_memory() -> SharedMemory:
    """The one of this process, made when it is first needed."""
    return SharedMemory(CAPACITY_BYTES)
