"""What one run of the benchmark is asked to do.

In: the command line's choices. Out: a `RunPlan`, which every section reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.cells import VARIANTS, Cell, Way
from bench.store import Store
from bench.turns import Budget


@dataclass(frozen=True)
class RunPlan:
    """The choices of one run, and where its results and files go."""

    store: Store
    cache: Path  # compiled code of the ways, shared by the steps of one run
    logs: Path
    models: tuple[str, ...]
    ways: tuple[str, ...]
    variants: tuple[str, ...] = tuple(VARIANTS)
    budget: Budget = field(default_factory=Budget)
    resume: bool = False  # leave out what the results file has already
    say: Callable[[str], None] = print

    def choose_ways(self, cell: Cell) -> tuple[Way, ...]:
        """The ways of a cell that were asked for."""
        return tuple(way for way in cell.ways if way.name in self.ways)

    def is_wanted(self, section: str, key: str) -> bool:
        """False where a continued run has this result."""
        return not (self.resume and key in self.store.read(section))
