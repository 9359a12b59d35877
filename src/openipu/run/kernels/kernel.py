"""What a kernel is: a C++ file, its functions with their arguments, and what it may change.

In: nothing. Out: the records `Kernel`, `Function` and `Gain`. A record is plain data; `catalog.py` has all of them.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import torch

CPP_FOLDER = Path(__file__).with_name("cpp")


class Accuracy(Enum):
    """How the results of a kernel compare with those of the operators."""

    SAME_BITS = "the bits of the operators"
    OTHER_ORDER = "sums in another order, or another formula: other last bits"


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
class Gain:
    """A model that gains from a kernel, and by how much: as measured, with the source in the docs."""

    model: str
    measured: str


@dataclass(frozen=True)
class Kernel:
    """One C++ file that is compiled to one library."""

    name: str
    source: str  # a file of `cpp/`
    functions: tuple[Function, ...]
    accuracy: Accuracy
    fresh: bool  # its result is memory of its own, unless it is told to write over an operand
    dtypes: tuple[torch.dtype, ...]  # of the values that it reads and writes
    gains: tuple[Gain, ...]
    constants: tuple[tuple[str, int], ...] = ()  # what the file is compiled with: sizes of one geometry

    def specialize(self, **constants: int) -> Kernel:
        """The same kernel for one geometry."""
        return replace(self, constants=tuple(sorted(constants.items())))
