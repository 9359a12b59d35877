"""Where to cut: dynamic programming over the chain of segments.

In: an estimator, a scheme, the bytes that a tile of each IPU may use. Out: the layout whose busiest IPU is busy for the
shortest time (or, on request, whose fullest tile is emptiest), or None where nothing fits by estimate.

best(s, i) is the least that stages s and later, which hold the segments from i on, can come to:
the minimum over j of max(cost of stage s with segments i to j, best(s + 1, j + 1)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise

from openipu.explore.auto.estimate import Estimator, Part, Scheme
from openipu.explore.auto.types import Layout, Stage

Choice = tuple[float, float]  # cost, proportion
Limit = Callable[[int, float], float]  # IPU, proportion -> bytes of its fullest tile, by estimate


class CutSearch:
    """The best cuts of one scheme."""

    def __init__(self, estimator: Estimator, scheme: Scheme, limits: Limit, tight: bool = False) -> None:
        self.estimator, self.scheme, self.limit, self.tight = estimator, scheme, limits, tight
        self.end = estimator.segments if scheme.tail is None else scheme.tail
        self._best: dict[tuple[int, int], tuple[float, float, int, float] | None] = {}

    def run(self) -> Layout | None:
        """The best layout."""
        if self.end < self.scheme.ipus:
            return None
        for stage in range(self.scheme.ipus - 1, -1, -1):
            latest = self.end - (self.scheme.ipus - stage)
            for first in range(0 if stage == 0 else stage, (0 if stage == 0 else latest) + 1):
                self._best[stage, first] = self._solve(stage, first)
        return self._read_back() if self._best[0, 0] is not None else None

    def _solve(self, stage: int, first: int) -> tuple[float, float, int, float] | None:
        """(worst cost, sum of costs, last segment, proportion) of the best way on from here."""
        final = stage == self.scheme.ipus - 1
        latest = self.end - (self.scheme.ipus - stage)
        best: tuple[float, float, int, float] | None = None
        for last in range(self.end - 1 if final else first, latest + 1):
            rest = (0.0, 0.0, 0, 0.0) if final else self._best[stage + 1, last + 1]
            choice = self._choose(stage, first, last)
            if choice is None:
                break  # more segments need still more memory
            if rest is not None:
                found = (max(choice[0], rest[0]), choice[0] + rest[1], last, choice[1])
                if best is None or found[:2] < best[:2]:
                    best = found
            if best is not None and choice[0] > best[0]:
                break  # more segments take still longer
        return best

    def _choose(self, stage: int, first: int, last: int) -> Choice | None:
        """The cost of one stage with the proportion that suits it."""
        found: list[tuple[float, float, float]] = []
        guesses = self.estimator.estimate_shares(self._list_parts(stage, first, last), self.scheme)
        for proportion, guess in zip(self.estimator.proportions, guesses, strict=True):
            peak = guess.peak_bytes / self.limit(stage, proportion)
            if self.tight:
                found.append((peak, guess.busy_cycles, proportion))
            elif peak <= 1.0:
                found.append((guess.busy_cycles, peak, proportion))
        if not found:
            return None
        cost, _, proportion = min(found)
        return cost, proportion

    def _list_parts(self, stage: int, first: int, last: int) -> tuple[Part, ...]:
        own = (stage, first, last)
        if stage or self.scheme.tail is None:
            return (own,)
        return (own, (self.scheme.last_stage, self.scheme.tail, self.estimator.segments - 1))

    def _read_back(self) -> Layout:
        stages: list[Stage] = []
        proportions: list[float] = []
        first = 0
        for stage in range(self.scheme.ipus):
            best = self._best[stage, first]
            assert best is not None
            stages.append(Stage(first, best[2], stage))
            proportions.append(best[3])
            first = best[2] + 1
        return make_layout(stages, proportions, self.scheme, self.estimator.segments)


def make_layout(stages: Sequence[Stage], proportions: Sequence[float], scheme: Scheme, segments: int) -> Layout:
    """A layout from the stages of a chain, with the scheme's last stage on IPU 0 if it has one."""
    closing = () if scheme.tail is None else (Stage(scheme.tail, segments - 1, 0),)
    return Layout((*stages, *closing), tuple(proportions), scheme.keep, scheme.state_home)


def list_layouts(scheme: Scheme, segments: int, proportion: float) -> Iterator[Layout]:
    """All ways to cut, with one proportion everywhere."""
    end = segments if scheme.tail is None else scheme.tail
    for cuts in combinations(range(1, end), scheme.ipus - 1):
        edges = (0, *cuts, end)
        stages = [Stage(first, last - 1, ipu) for ipu, (first, last) in enumerate(pairwise(edges))]
        yield make_layout(stages, (proportion,) * scheme.ipus, scheme, segments)


def count_layouts(scheme: Scheme, segments: int) -> int:
    """How many ways there are to cut."""
    end = segments if scheme.tail is None else scheme.tail
    return math.comb(end - 1, scheme.ipus - 1)
