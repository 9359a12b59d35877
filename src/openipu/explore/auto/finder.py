"""Finds the fastest layout of one captured program that fits, and proves it by full plans.

In: a program, a system, options, schemes. Out: a `Split`.
First every segment is measured, once for each memory proportion. Then the best cuts of each scheme are found by
estimate; the most promising is planned in full, the plan corrects the estimate of its scheme, and so on. Where no
estimate leads to a layout that fits, all layouts are planned, those with the lowest estimated peak first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from openipu.explore.auto.cuts import CutSearch, Limit, count_layouts, list_layouts
from openipu.explore.auto.estimate import Estimator, Scheme, list_parts
from openipu.explore.auto.measure import measure_segments
from openipu.explore.auto.placing import lay_out
from openipu.explore.auto.schemes import make_options, measure_variables
from openipu.explore.auto.segments import Chain
from openipu.explore.auto.types import Layout, Split
from openipu.graph import Program, RunOptions
from openipu.machine import System
from openipu.plan import Plan, plan_program

_GOOD_PLANS = 3  # fitting plans after which a less promising estimate is not worth a plan
_PLANS_AFTER_FIT = 32  # after which the best so far is taken, whatever else promises more
_HOPE = 0.97  # estimates may be too high: a plan that does not fit costs seconds, one that is not tried is lost
_CORRECTIONS = 4  # plans of one scheme, each with a better estimate than the one before


@dataclass(frozen=True, slots=True)
class _Candidate:
    estimate: float  # samples a second
    scheme: Scheme
    layout: Layout


@dataclass(frozen=True, slots=True)
class _Found:
    scheme: Scheme
    layout: Layout
    plan: Plan

    @property
    def rank(self) -> tuple[bool, float]:
        """What fits is better than what does not; then the faster one, or the one that is less too large."""
        fit = self.plan.fit
        return fit.fits, self.plan.timing.samples_per_second if fit.fits else -float(fit.peak_bytes)


class Finder:
    """One search."""

    def __init__(
        self,
        program: Program,
        chain: Chain,
        system: System,
        options: RunOptions,
        schemes: Sequence[Scheme],
        proportions: Sequence[float],
        seconds: float | None,
        most_plans: int,
    ) -> None:
        self.program, self.chain, self.system, self.options = program, chain, system, options
        self.schemes, self.proportions = list(schemes), tuple(proportions)
        self.started = time.perf_counter()
        self.seconds, self.most_plans = seconds, most_plans
        self.limit_bytes = float(system.target.usable_tile_bytes)
        self.plans: dict[tuple[Scheme, Layout], Plan] = {}
        self.plans_before_fit = 0
        self.measured = 0
        self.corrections: dict[Scheme, dict[tuple[int, float], float]] = {scheme: {} for scheme in self.schemes}
        self.corrected: set[Scheme] = set()
        self.best: _Found | None = None
        self.complete = self.timed_out = False

    def run(self) -> Split:
        """Search until nothing promises more, or a limit is reached and something fits."""
        estimator = self._measure()
        if estimator is not None:
            self._climb(estimator)
        if self.best is None or not self.best.plan.fit.fits:
            self._try_all(estimator)
        if self.best is None:  # nothing was worth a plan: show the one with the most IPUs
            scheme = max(self.schemes, key=lambda entry: entry.ipus)
            self._plan(scheme, next(list_layouts(scheme, len(self.chain.segments), self.proportions[0])))
        assert self.best is not None
        scheme, layout = self.best.scheme, self.best.layout
        return Split(
            segments=self.chain.segments,
            layout=layout,
            options=make_options(self.options, layout, scheme),
            micro_batch=self.best.plan.micro_batch,
            plan=self.best.plan,
            plans_made=len(self.plans) + self.measured,
            most_stages=self.chain.most_stages,
            complete=self.complete,
            seconds=time.perf_counter() - self.started,
            timed_out=self.timed_out,
        )

    def _measure(self) -> Estimator | None:
        """None where nothing can be cut: then there are so few layouts that all are planned."""
        if len(self.chain.segments) == 1 or self.system.ipu_link_bytes_per_second <= 0:
            return None
        costs = {}
        for proportion in self.proportions:
            costs[proportion] = measure_segments(self.program, self.chain, self.system, self.options, proportion)
            self.measured += 1
        return Estimator(costs, self.system, self.options.training)

    # ------------------------------------------------------------------------------------------------ by estimate

    def _climb(self, estimator: Estimator) -> None:
        waiting = [found for scheme in self.schemes if (found := self._search(estimator, scheme)) is not None]
        tries: dict[Scheme, int] = {}
        good = 0
        while waiting:
            waiting.sort(key=lambda candidate: candidate.estimate)
            candidate = waiting.pop()
            if self._has_fit() and (
                good >= _GOOD_PLANS
                or len(self.plans) - self.plans_before_fit >= _PLANS_AFTER_FIT
                or self._promises_less(candidate)
                or self._is_late()
            ):
                return
            if len(self.plans) >= self.most_plans:
                return
            if candidate.scheme not in self.corrected:  # what was learned meanwhile may change its best cuts
                renewed = self._search(estimator, candidate.scheme)
                if renewed is None:
                    continue
                if renewed.layout != candidate.layout:
                    self.corrected.add(candidate.scheme)
                    waiting.append(renewed)
                    continue
            plan = self._plan(candidate.scheme, candidate.layout)
            good += plan.fit.fits
            tries[candidate.scheme] = tries.get(candidate.scheme, 0) + 1
            if tries[candidate.scheme] < _CORRECTIONS:
                self._correct(estimator, candidate, plan)
                better = self._search(estimator, candidate.scheme)
                if better is not None and (better.scheme, better.layout) not in self.plans:
                    waiting.append(better)
        if not self._has_fit():
            self._squeeze(estimator)

    def _search(self, estimator: Estimator, scheme: Scheme) -> _Candidate | None:
        layout = CutSearch(estimator, scheme, self._make_limit(scheme)).run()
        return None if layout is None else _Candidate(estimator.estimate_call(layout, scheme), scheme, layout)

    def _make_limit(self, scheme: Scheme) -> Limit:
        """What an estimate may come to, given what plans have taught of estimates for this IPU and proportion."""
        known = self.corrections[scheme]
        return lambda ipu, proportion: self.limit_bytes / known.get((ipu, proportion), _HOPE)

    def _correct(self, estimator: Estimator, candidate: _Candidate, plan: Plan) -> None:
        """Learn from a full plan how far the estimate of each IPU's memory was off, also for schemes that are alike."""
        scheme = candidate.scheme
        factors = self.corrections[scheme]
        for ipu, memory in enumerate(plan.memory[: scheme.ipus]):
            proportion = candidate.layout.proportions[ipu]
            guess = estimator.estimate(list_parts(candidate.layout, ipu), scheme, proportion)
            factors[ipu, proportion] = float(memory.peak.max()) / max(1.0, guess.peak_bytes)
        self.corrected.add(scheme)
        for other in self.schemes:
            alike = (other.ipus, other.keep, other.tail is None) == (scheme.ipus, scheme.keep, scheme.tail is None)
            if alike and other not in self.corrected:
                self.corrections[other] = {**factors, **self.corrections[other]}

    def _squeeze(self, estimator: Estimator) -> None:
        """Nothing fits by estimate: plan what needs the least memory in each scheme, the smallest first."""
        waiting: list[tuple[float, Scheme, Layout]] = []
        for scheme in self.schemes:
            layout = CutSearch(estimator, scheme, self._make_limit(scheme), tight=True).run()
            if layout is not None and (scheme, layout) not in self.plans:
                waiting.append((estimator.estimate_peak(layout, scheme), scheme, layout))
        waiting.sort(key=lambda entry: entry[0])
        for _, scheme, layout in waiting:
            if self._has_fit() or len(self.plans) >= self.most_plans:
                return
            self._plan(scheme, layout)

    # ------------------------------------------------------------------------------------------------ by force

    def _try_all(self, estimator: Estimator | None) -> None:
        """Plan every layout, the smallest first. Schemes whose variables alone are too large need no plan."""
        segments = len(self.chain.segments)
        schemes = [scheme for scheme in self.schemes if self._may_fit(scheme)]
        listed = sum(count_layouts(scheme, segments) for scheme in schemes)
        if len(self.plans) >= self.most_plans or listed > 50 * self.most_plans:
            return  # too many to sort: the smallest by estimate were planned before
        layouts = [
            (scheme, layout) for scheme in schemes for layout in list_layouts(scheme, segments, self.proportions[0])
        ]
        if estimator is not None:
            layouts.sort(key=lambda entry: estimator.estimate_peak(entry[1], entry[0]))
        for scheme, layout in layouts:
            if len(self.plans) >= self.most_plans:
                return
            self._try_proportions(scheme, layout)
            if self._has_fit():
                return
        self.complete = True

    def _may_fit(self, scheme: Scheme) -> bool:
        """Do the variables that are always live fit the tiles of all IPUs together?"""
        held = measure_variables(self.program, self.options, scheme)
        return held <= scheme.ipus * self.system.target.tiles * self.limit_bytes

    def _try_proportions(self, scheme: Scheme, layout: Layout) -> None:
        """One proportion everywhere, then for each IPU the first one that it fits with."""
        chosen: list[float | None] = [None] * scheme.ipus
        for proportion in self.proportions:
            same = Layout(layout.stages, (proportion,) * scheme.ipus, layout.keep, layout.state_home)
            plan = self._plan(scheme, same)
            if plan.fit.fits:
                return
            for ipu, memory in enumerate(plan.memory[: scheme.ipus]):
                if chosen[ipu] is None and memory.peak.max() <= self.limit_bytes:
                    chosen[ipu] = proportion
        mixed = [share for share in chosen if share is not None]
        if len(mixed) == scheme.ipus:
            self._plan(scheme, Layout(layout.stages, tuple(mixed), layout.keep, layout.state_home))

    # ------------------------------------------------------------------------------------------------ plans

    def _plan(self, scheme: Scheme, layout: Layout) -> Plan:
        key = (scheme, layout)
        if key not in self.plans:
            with lay_out(self.program, self.chain, layout):
                self.plans[key] = plan_program(self.program, self.system, make_options(self.options, layout, scheme))
            found = _Found(scheme, layout, self.plans[key])
            if not self._has_fit():
                self.plans_before_fit = len(self.plans)
            if self.best is None or found.rank > self.best.rank:
                self.best = found
        return self.plans[key]

    def _has_fit(self) -> bool:
        return self.best is not None and self.best.plan.fit.fits

    def _is_late(self) -> bool:
        self.timed_out = self.seconds is not None and time.perf_counter() - self.started > self.seconds
        return self.timed_out

    def _promises_less(self, candidate: _Candidate) -> bool:
        return self.best is not None and candidate.estimate <= self.best.plan.timing.samples_per_second
