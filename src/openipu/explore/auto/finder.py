"""Finds the fastest layout of one captured program that fits, and proves it by full plans.

In: a program, a system, options, schemes. Out: a `Split`.
First every segment is measured, once for each memory proportion. Then the best cuts of each scheme are found by
estimate; the most promising is planned in full, the plan corrects the estimate of its scheme, and so on. Where no
estimate leads to a layout that fits, all layouts are planned, those with the lowest estimated peak first.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openipu.explore.auto.cuts import CutSearch, Limit, count_layouts, list_layouts
from openipu.explore.auto.estimate import Estimator, Scheme, list_parts
from openipu.explore.auto.floor import Floor
from openipu.explore.auto.measure import SegmentCosts, SegmentMeter, join_best
from openipu.explore.auto.placing import lay_out
from openipu.explore.auto.schemes import make_options
from openipu.explore.auto.segments import Chain
from openipu.explore.auto.types import Layout, Shortage, Split
from openipu.graph import Program, RunOptions
from openipu.machine import System
from openipu.plan import KnownProgram, Plan, plan_program

_GOOD_PLANS = 3  # fitting plans after which a less promising estimate is not worth a plan
_GOOD_PLANS_WIDELY = 25  # the same where a plan costs a fraction of a second
_WIDELY = 200  # so many plans are affordable: the program is small
_PLANS_AFTER_FIT = 32  # after which the best so far is taken, whatever else promises more
_HOPE = 0.97  # estimates may be too high: a plan that does not fit costs seconds, one that is not tried is lost
_HOPE_WIDELY = 0.8  # where it costs a fraction of a second
_CORRECTIONS = 4  # plans of one scheme, each with a better estimate than the one before
_OPTIMISM = 1.25  # a plan is at most so many times as fast as its estimate, until plans have shown otherwise
_MARGIN = 1.03  # beyond the most that plans have shown
_SURPRISE = 0.6  # no plan takes less of the memory that was estimated
_LAST_TRIES = 2  # plans of what is too large even so


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


@dataclass(frozen=True, slots=True)
class Bar:
    """What a search with another micro-batch has reached: what promises less need not be planned."""

    samples_per_second: float
    optimism: float  # plans were at most so many times as fast as their estimates


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
        bar: Bar | None = None,
        known: KnownProgram | None = None,
    ) -> None:
        self.program, self.chain, self.system, self.options = program, chain, system, options
        self.schemes, self.proportions = list(schemes), tuple(proportions)
        self.started = time.perf_counter()
        self.seconds, self.most_plans, self.bar = seconds, most_plans, bar
        self.widely = most_plans >= _WIDELY
        self.good_plans = _GOOD_PLANS_WIDELY if self.widely else _GOOD_PLANS
        self.hope = _HOPE_WIDELY if self.widely else _HOPE
        self.limit_bytes = float(system.target.usable_tile_bytes)
        self.plans: dict[tuple[Scheme, Layout], Plan] = {}
        self.plans_before_fit = 0
        self.measured = 0
        self.known = known or KnownProgram()
        self.corrections: dict[Scheme, dict[tuple[int, float], float]] = {scheme: {} for scheme in self.schemes}
        self.corrected: set[Scheme] = set()
        self.best: _Found | None = None
        self.complete = self.timed_out = False
        self.shortage: Shortage | None = None
        self.fastest_ratio = 0.0  # the most samples a second that a plan had, for one of its estimate
        self.smallest_ratio = 1.0  # the least bytes on its fullest tile, for one of its estimate

    @property
    def plans_made(self) -> int:
        return len(self.plans) + self.measured

    @property
    def optimism(self) -> float:
        """By how much estimates may be too low, after all that is known."""
        known = max(self.fastest_ratio, self.bar.optimism if self.bar is not None else 0.0)
        return max(1.0, known) * _MARGIN if known else _OPTIMISM

    def run(self) -> Split | None:
        """Search until nothing promises more, or a limit is reached and something fits. None: below the bar."""
        floor = Floor(self.program, self.chain, self.system, self.options, self.known)
        self.shortage = floor.explain(self.schemes)
        if self.shortage is None:
            self.schemes = [scheme for scheme in self.schemes if floor.admits(scheme)]
            self._search()
        elif self.bar is None:
            self.complete = True
        if self.best is None and self.bar is not None:
            return None
        if self.best is None:  # nothing was worth a plan: show what comes closest
            scheme = min(self.schemes, key=floor.find_least)
            self._plan(scheme, floor.cut(scheme, min(self.proportions)))
        assert self.best is not None
        scheme, layout = self.best.scheme, self.best.layout
        return Split(
            segments=self.chain.segments,
            layout=layout,
            options=make_options(self.options, layout, scheme),
            micro_batch=self.best.plan.micro_batch,
            plan=self.best.plan,
            plans_made=self.plans_made,
            most_stages=self.chain.most_stages,
            complete=self.complete,
            seconds=time.perf_counter() - self.started,
            timed_out=self.timed_out,
            shortage=self.shortage,
        )

    def _search(self) -> None:
        if len(self.chain.segments) == 1 or self.system.ipu_link_bytes_per_second <= 0:
            self._try_all(None)  # nothing can be cut: there are so few layouts that all are planned
            return
        meter = SegmentMeter(self.program, self.chain, self.system, self.options, self.known)
        ends = self._measure(meter, sorted({min(self.proportions), max(self.proportions)}))
        if not self._has_hope(ends):
            if self.bar is None:
                self._squeeze(self._make_estimator(ends), _LAST_TRIES)
            return
        others = [proportion for proportion in self.proportions if proportion not in ends]
        estimator = self._make_estimator({**ends, **self._measure(meter, others)})
        self._climb(estimator)
        if not self._has_fit():
            self._try_all(estimator)

    def _measure(self, meter: SegmentMeter, proportions: Sequence[float]) -> dict[float, SegmentCosts]:
        self.measured += len(proportions)
        return {proportion: meter.measure(proportion) for proportion in proportions}

    def _make_estimator(self, costs: Mapping[float, SegmentCosts]) -> Estimator:
        """In the order of the proportions that were asked for."""
        ordered = {proportion: costs[proportion] for proportion in self.proportions if proportion in costs}
        return Estimator(ordered, self.system, self.options.training)

    def _has_hope(self, ends: Mapping[float, SegmentCosts]) -> bool:
        """Could anything do, if every op were as fast as with the most memory and as small as with the least?"""
        hopeful = Estimator({0.0: join_best(list(ends.values()))}, self.system, self.options.training)
        share = _SURPRISE if self.bar is None else self.hope
        for scheme in self.schemes:
            layout = CutSearch(hopeful, scheme, lambda ipu, proportion: self.limit_bytes / share).run()
            if layout is not None and self._clears_bar(hopeful.estimate_call(layout, scheme)):
                return True
        return not self.schemes

    def _clears_bar(self, estimate: float) -> bool:
        return self.bar is None or estimate * self.optimism > self.bar.samples_per_second

    # ------------------------------------------------------------------------------------------------ by estimate

    def _climb(self, estimator: Estimator) -> None:
        waiting = [found for scheme in self.schemes if (found := self._find_cuts(estimator, scheme)) is not None]
        tries: dict[Scheme, int] = {}
        good = 0
        while waiting:
            waiting.sort(key=lambda candidate: candidate.estimate)
            candidate = waiting.pop()
            if self._has_fit() and (
                good >= self.good_plans
                or len(self.plans) - self.plans_before_fit >= _PLANS_AFTER_FIT
                or self._promises_less(candidate)
                or self._is_late()
            ):
                return
            if len(self.plans) >= self.most_plans or not self._clears_bar(candidate.estimate):
                return
            if not self._has_fit() and len(self.plans) >= self.most_plans - _LAST_TRIES:
                break  # the last plans are for what needs the least memory
            if candidate.scheme not in self.corrected:  # what was learned meanwhile may change its best cuts
                renewed = self._find_cuts(estimator, candidate.scheme)
                if renewed is None:
                    continue
                if renewed.layout != candidate.layout:
                    self.corrected.add(candidate.scheme)
                    waiting.append(renewed)
                    continue
            plan = self._plan(candidate.scheme, candidate.layout)
            self._compare(estimator, candidate.scheme, candidate.layout, plan)
            good += plan.fit.fits
            tries[candidate.scheme] = tries.get(candidate.scheme, 0) + 1
            if tries[candidate.scheme] < _CORRECTIONS:
                self._correct(estimator, candidate, plan)
                better = self._find_cuts(estimator, candidate.scheme)
                if better is not None and (better.scheme, better.layout) not in self.plans:
                    waiting.append(better)
        if not self._has_fit():
            self._squeeze(estimator)

    def _find_cuts(self, estimator: Estimator, scheme: Scheme) -> _Candidate | None:
        layout = CutSearch(estimator, scheme, self._make_limit(scheme)).run()
        return None if layout is None else _Candidate(estimator.estimate_call(layout, scheme), scheme, layout)

    def _make_limit(self, scheme: Scheme) -> Limit:
        """What an estimate may come to, given what plans have taught of estimates for this IPU and proportion."""
        known = self.corrections[scheme]
        return lambda ipu, proportion: self.limit_bytes / known.get((ipu, proportion), self.hope)

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

    def _compare(self, estimator: Estimator, scheme: Scheme, layout: Layout, plan: Plan) -> None:
        """Learn from a full plan how far estimates may be off."""
        rate, peak = estimator.estimate_call(layout, scheme), estimator.estimate_peak(layout, scheme)
        self.fastest_ratio = max(self.fastest_ratio, plan.timing.samples_per_second / rate if rate else 0.0)
        self.smallest_ratio = min(self.smallest_ratio, plan.fit.peak_bytes / peak if peak else 1.0)

    def _squeeze(self, estimator: Estimator, most: int | None = None) -> None:
        """Nothing fits by estimate: plan what needs the least memory in each scheme, the smallest first."""
        waiting: list[tuple[float, Scheme, Layout]] = []
        for scheme in self.schemes:
            layout = CutSearch(estimator, scheme, self._make_limit(scheme), tight=True).run()
            if layout is None or (scheme, layout) in self.plans:
                continue
            if self._clears_bar(estimator.estimate_call(layout, scheme)):
                waiting.append((estimator.estimate_peak(layout, scheme), scheme, layout))
        waiting.sort(key=lambda entry: entry[0])
        for peak, scheme, layout in waiting[:most]:
            if self._has_fit() or len(self.plans) >= self.most_plans:
                return
            if most is None and peak * min(_SURPRISE, self.smallest_ratio) > self.limit_bytes:
                return
            self._compare(estimator, scheme, layout, self._plan(scheme, layout))

    # ------------------------------------------------------------------------------------------------ by force

    def _try_all(self, estimator: Estimator | None) -> None:
        """Plan every layout, the smallest first."""
        segments = len(self.chain.segments)
        listed = sum(count_layouts(scheme, segments) for scheme in self.schemes)
        if len(self.plans) >= self.most_plans or listed > 50 * self.most_plans:
            return  # too many to sort: the smallest by estimate were planned before
        layouts = [
            (scheme, layout)
            for scheme in self.schemes
            for layout in list_layouts(scheme, segments, self.proportions[0])
        ]
        if estimator is not None:
            if self.bar is not None:
                layouts = [entry for entry in layouts if self._clears_bar(estimator.estimate_call(entry[1], entry[0]))]
            layouts.sort(key=lambda entry: estimator.estimate_peak(entry[1], entry[0]))
        for scheme, layout in layouts:
            if len(self.plans) >= self.most_plans:
                return
            self._try_proportions(scheme, layout)
            if self._has_fit():
                return
        self.complete = self.bar is None

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
                options = make_options(self.options, layout, scheme)
                self.plans[key] = plan_program(self.program, self.system, options, known=self.known)
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
        doubt = max(_OPTIMISM, self.optimism) if self.widely else 1.0
        return self.best is not None and candidate.estimate * doubt <= self.best.plan.timing.samples_per_second
