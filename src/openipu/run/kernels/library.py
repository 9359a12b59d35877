"""Kernels that are loaded: what a program may call.

In: compiled libraries. Out: a `KernelLibrary`, which is handed on through the setting of the passes. It never changes:
when kernels arrive, there is a new one, and engines are built anew.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from openipu.run.kernels.kernel import Function, Kernel

Run = Callable[[Any], None]  # of a struct of arguments


class UnusableLibraryError(Exception):
    """A library cannot be loaded, or is not the one that the record describes."""


@dataclass(frozen=True, eq=False)
class LoadedKernel:
    """The functions of one library. It stays in memory for as long as the process: code cannot be unloaded safely."""

    kernel: Kernel
    functions: Mapping[Function, Run]
    held: object = None  # the entry of the cache, which is not evicted while it is in use

    def __getitem__(self, function: Function) -> Run:
        return self.functions[function]


@dataclass(frozen=True, eq=False)
class KernelLibrary:
    """Loaded kernels by their records."""

    loaded: Mapping[Kernel, LoadedKernel] = field(default_factory=lambda: MappingProxyType({}))

    def __contains__(self, kernel: Kernel) -> bool:
        return kernel in self.loaded

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self.loaded)

    def __len__(self) -> int:
        return len(self.loaded)

    def __getitem__(self, kernel: Kernel) -> LoadedKernel:
        return self.loaded[kernel]

    def find_run(self, kernel: Kernel, function: Function) -> Run | None:
        """A function of a kernel, if that is loaded."""
        loaded = self.loaded.get(kernel)
        return None if loaded is None else loaded[function]

    def select(self, kernels: Iterable[Kernel]) -> KernelLibrary:
        """Those of some kernels that are loaded."""
        return KernelLibrary({kernel: self.loaded[kernel] for kernel in kernels if kernel in self.loaded})

    def extend(self, kernels: Iterable[LoadedKernel]) -> KernelLibrary:
        return KernelLibrary({**self.loaded, **{loaded.kernel: loaded for loaded in kernels}})


def load_kernel(kernel: Kernel, path: Path, held: object = None) -> LoadedKernel:
    """Load the library of a kernel, and compare the sizes of its structs with the record's."""
    try:
        library = ctypes.CDLL(str(path))
        functions = {function: _load_function(library, function) for function in kernel.functions}
    except (OSError, AttributeError) as error:
        raise UnusableLibraryError(f"the library of {kernel.name} cannot be loaded: {error}") from error
    return LoadedKernel(kernel, MappingProxyType(functions), held)


def _load_function(library: ctypes.CDLL, function: Function) -> Run:
    measure = library[function.size_symbol]
    measure.argtypes, measure.restype = (), ctypes.c_int64
    if (size := int(measure())) != function.argument_bytes:
        raise UnusableLibraryError(f"{function.symbol} reads {size} bytes, not {function.argument_bytes}")
    run = library[function.symbol]
    # A struct of any other type is a TypeError, and never read.
    run.argtypes, run.restype = (ctypes.POINTER(function.arguments),), None
    return run
