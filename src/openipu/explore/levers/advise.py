"""Re-plans a program that does not fit with each lever, and sorts what came out.

In: a program with its plan. Out: an `Advice`: every lever with bytes saved and cycles paid, the one line that makes it
fit, in the words of each front end. How far the search goes is a number of plans, so that it is the same on every
machine; a limit of time is for those who cannot wait, and the advice says what it left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from openipu.errors import OpenIpuError
from openipu.explore.auto import scale_job
from openipu.explore.levers.combine import combine_levers
from openipu.explore.levers.replan import Recapture, Subject, Variant, plan_again
from openipu.explore.levers.types import Advice, FrontEnd, LeverKind, LeverResult, Limit, Setting, describe_setting
from openipu.explore.levers.values import list_unreachable, list_values
from openipu.explore.levers.words import word_settings
from openipu.graph import Program
from openipu.jobs import PlanningJob, capture_job, halve_job
from openipu.plan import Plan

MOST_PLANS = 150  # of one advice: enough for every lever and their combinations on a system of 64 IPUs
TOGETHER, MORE_TOGETHER = "levers together", "more levers together"

Tell = Callable[[str], None]


def advise(
    program: Program,
    plan: Plan,
    *,
    recapture: Recapture | None = None,
    most_plans: int = MOST_PLANS,
    seconds: float | None = None,
    tell: Tell | None = None,
) -> Advice:
    """What would make a program fit. `recapture` gives the same program in another variant.

    Each lever is planned with its gentlest value that fits, else with its strongest. Where no lever is enough, levers
    are pulled together, those that save most first. Nothing new is begun after `most_plans` plans, or after `seconds`
    if given; `Advice.untried` names what was left out. `tell` gets the title of each attempt before it is planned.
    """
    return _Advisor(Subject(program, plan.system, plan.options, plan, recapture), most_plans, seconds, tell).run()


def advise_job(
    job: PlanningJob,
    plan: Plan,
    *,
    most_plans: int = MOST_PLANS,
    seconds: float | None = None,
    tell: Tell | None = None,
) -> Advice:
    """The same for a planning job, which can be captured with a smaller micro-batch and in half precision."""

    def recapture(variant: Variant) -> Program:
        scaled = scale_job(job, variant.micro_batch)
        return capture_job(halve_job(scaled) if variant.half else scaled)

    return advise(capture_job(job), plan, recapture=recapture, most_plans=most_plans, seconds=seconds, tell=tell)


class _Advisor:
    def __init__(self, subject: Subject, most_plans: int, seconds: float | None, tell: Tell | None) -> None:
        self.subject, self.most_plans, self.seconds, self.tell = subject, most_plans, seconds, tell
        self.started = time.perf_counter()
        self.found: dict[LeverKind, LeverResult] = {}
        self.untried: list[str] = []
        self.stopped_by: Limit | None = None

    def run(self) -> Advice:
        for kind in LeverKind:
            self._pull(kind)
        results = list(self.found.values())
        if not any(result.fits for result in results):
            together = self._combine()
            results.extend([together] if together is not None else [])
        levers = sorted(results, key=_rank)
        best = levers[0] if levers and levers[0].fits else None
        words = {
            front_end: word_settings(best.settings, front_end, best.plan) if best is not None else ""
            for front_end in FrontEnd
        }
        return Advice(
            plan=self.subject.plan,
            levers=tuple(levers),
            words=words,
            seconds=time.perf_counter() - self.started,
            plans_made=self.subject.plans_made,
            untried=tuple(self.untried),
            stopped_by=self.stopped_by,
            unreachable=list_unreachable(self.subject),
        )

    def _pull(self, kind: LeverKind) -> None:
        """Keep the gentlest value of a lever that fits, else the value that saves most."""
        settings = [Setting(kind, value) for value in list_values(self.subject, kind)]
        if len(settings) > 1 and kind is not LeverKind.MORE_IPUS:
            if self._is_over():
                self.untried.append(str(kind))
                return
            last = self._try((settings[-1],))
            if last is not None:
                self.found[kind] = last
            if last is None or not last.fits:  # the strongest is not enough, so no gentler one is
                return
            settings.pop()
        for setting in settings:
            strongest = self.found.get(kind)
            if self._is_over():
                self.untried.append(describe_setting(setting))
                continue
            result = self._try((setting,))
            if result is None:
                continue
            if result.fits or strongest is None or result.saved_tile_bytes > strongest.saved_tile_bytes:
                self.found[kind] = result
            if result.fits:
                return

    def _combine(self) -> LeverResult | None:
        """Levers together; where a limit is reached before or meanwhile, that is told."""
        together = None if self._is_over() else combine_levers(list(self.found.values()), self._try_in_time)
        if self.stopped_by is not None:
            self.untried.append(TOGETHER if together is None else MORE_TOGETHER)
        return together

    def _try_in_time(self, settings: Sequence[Setting]) -> LeverResult | None:
        return None if self._is_over() else self._try(settings)

    def _try(self, settings: Sequence[Setting]) -> LeverResult | None:
        """None where the program or the machine does not allow these settings."""
        if self.tell is not None:
            self.tell(" and ".join(describe_setting(setting) for setting in settings))
        try:
            plan, completed = plan_again(self.subject, settings)
        except OpenIpuError:
            return None
        return LeverResult(completed, plan, self.subject.plan)

    def _is_over(self) -> bool:
        """Has a limit been reached? The first one that was is told."""
        if self.stopped_by is None:
            if self.subject.plans_made >= self.most_plans:
                self.stopped_by = Limit.PLANS
            elif self.seconds is not None and time.perf_counter() - self.started >= self.seconds:
                self.stopped_by = Limit.TIME
        return self.stopped_by is not None


def _rank(result: LeverResult) -> tuple[bool, float]:
    """What fits comes first, the cheapest in front; then what saves most."""
    return not result.fits, result.paid_cycles if result.fits else -float(result.saved_tile_bytes)
