"""Where the elements of a tensor lie: a strided view of an address space, or an address for each element.

In: offsets, shapes and strides in elements. Out: `View`. The variables of all element types of one size share one
address space, so a view may span variables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openipu.graph.mapped.elements import ElementType

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Elements of one type, in row-major order of `shape`. Strided, unless `addresses` names each element."""

    type: ElementType
    shape: tuple[int, ...]
    offset: int = 0
    strides: tuple[int, ...] = ()
    addresses: Ints | None = None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.type.bytes

    def list_addresses(self) -> Ints:
        """The address of every element, in order, as one row."""
        if self.addresses is not None:
            return self.addresses.reshape(-1)
        return spell_out(self.offset, self.shape, self.strides).reshape(-1)


def spell_out(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Ints:
    """The addresses of a strided view."""
    found: Ints = np.full((), offset, dtype=np.int64)
    for size, stride in zip(shape, strides, strict=True):
        found = found[..., None] + np.arange(size, dtype=np.int64) * stride
    return found


def count_row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor whose elements lie one after the other."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))
