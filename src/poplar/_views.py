"""Views of strided and scattered elements: pure arithmetic on offsets, shapes and strides.

In: shapes and strides in elements. Out: others. Where strides cannot say it, the caller goes on with addresses.
"""

from __future__ import annotations

from typing import NamedTuple

from openipu.graph.mapped import count_row_major

Shape = tuple[int, ...]


class Interval(NamedTuple):
    """From `begin` up to, not including, `end`."""

    begin: int
    end: int

    def size(self) -> int:
        return self.end - self.begin

    def lower(self) -> int:
        return self.begin

    def upper(self) -> int:
        return self.end


def lie_apart(shape: Shape, strides: Shape) -> bool:
    """Do strides alone show that no element appears twice? Each must step over all that the smaller ones reach."""
    reach = 0
    for stride, size in sorted((abs(stride), size) for size, stride in zip(shape, strides, strict=True) if size > 1):
        if stride <= reach:
            return False
        reach += (size - 1) * stride
    return True


def reshape_strides(shape: Shape, strides: Shape, wanted: Shape) -> Shape | None:
    """Strides of the same elements in another shape; None where there are none."""
    merged: list[list[int]] = []  # runs of dimensions that lie as one: [size, stride]
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = [merged[-1][0] * size, stride]
        else:
            merged.append([size, stride])
    if not merged:
        return count_row_major(wanted)
    found: list[int] = []
    run = len(merged) - 1
    left, step = merged[run]
    for size in reversed(wanted):
        if size == 1:
            found.append(step)
            continue
        if left == 1:
            run -= 1
            if run < 0:
                return None
            left, step = merged[run]
        if left % size:
            return None
        found.append(step)
        step *= size
        left //= size
    return tuple(reversed(found))
