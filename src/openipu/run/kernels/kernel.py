"""What a kernel is: a C++ file, its functions with their arguments, and what it may change.

In: nothing. Out: the records `Kernel` and `Function`. A record is plain data; `catalog.py` has all of them.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from openipu.run.optimization import Optimization

CPP_FOLDER = Path(__file__).with_name("cpp")


@dataclass(frozen=True)
class Function:
    """One exported function, which reads one struct."""

    symbol: str
    arguments: type[ctypes.Structure]

    @property
    def size_symbol(self) -> str:
        """The function that says how large C++ takes the struct to be."""
        return f"{self.symbol}_argument_bytes"

    @property
    def argument_bytes(self) -> int:
        return ctypes.sizeof(self.arguments)


@dataclass(frozen=True)
class Kernel(Optimization):
    """One C++ file that is compiled to one library."""

    source: str  # a file of `cpp/`
    functions: tuple[Function, ...]
    fresh: bool  # its result is memory of its own, unless it is told to write over an operand
    dtypes: tuple[torch.dtype, ...]  # of the values that it reads and writes
    constants: tuple[tuple[str, int], ...] = ()  # what the file is compiled with: sizes of one geometry

    def specialize(self, **constants: int) -> Kernel:
        """The same kernel for one geometry."""
        return replace(self, constants=tuple(sorted(constants.items())))
