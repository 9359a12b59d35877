"""Calls of kernels as targets of nodes: what a graph calls, and what other passes may know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class KernelCall:
    """A function that a graph calls. It is bound to loaded kernels, and leaves to operators what they do not take."""

    run: Callable[..., Any]
    fresh: bool = False  # it only reads its operands, and its result is memory of its own
    writes: bool = False  # its result is the memory of its first operand, where that lies in order
    in_place: KernelCall | None = None  # the same, in the memory of the first operand

    def __call__(self, *arguments: Any) -> Any:
        return self.run(*arguments)

    @property
    def __name__(self) -> str:  # for the names of nodes
        return self.run.__name__
