"""Re-plans a program that does not fit with each lever, and sorts what came out.

In: a program with its plan. Out: an `Advice`: every lever with bytes saved and cycles paid, the one line that makes it
fit, in the words of each front end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from openipu.errors import OpenIpuError
from openipu.explore.auto import scale_job
from openipu.explore.levers.replan import Recapture, Subject, plan_again
from openipu.explore.levers.types import Advice, FrontEnd, LeverKind, LeverResult, Setting
from openipu.explore.levers.words import word_settings
from openipu.graph import Program, Recompute, TensorRole
from openipu.jobs import PlanningJob, capture_job
from openipu.plan import Plan

DEFAULT_SECONDS = 30.0
_PROPORTIONS = (0.4, 0.2, 0.1, 0.05)
_PIECES = (2, 4, 8, 16)


def advise(
    program: Program,
    plan: Plan,
    *,
    recapture: Recapture | None = None,
    seconds: float = DEFAULT_SECONDS,
) -> Advice:
    """What would make a program fit. `recapture` gives the same program for a smaller micro-batch.

    Each lever is planned with its gentlest value that fits, else with its strongest. Where no lever is enough, levers
    are pulled together, those that save most first. No new lever is begun after `seconds`.
    """
    return _Advisor(Subject(program, plan.system, plan.options, plan, recapture), seconds).run()


def advise_job(job: PlanningJob, plan: Plan, *, seconds: float = DEFAULT_SECONDS) -> Advice:
    """The same for a planning job, whose micro-batch can be made smaller."""
    return advise(capture_job(job), plan, recapture=lambda size: capture_job(scale_job(job, size)), seconds=seconds)


class _Advisor:
    def __init__(self, subject: Subject, seconds: float) -> None:
        self.subject, self.seconds = subject, seconds
        self.started = time.perf_counter()
        self.found: dict[LeverKind, LeverResult] = {}
        self.together: LeverResult | None = None
        self.complete = True

    def run(self) -> Advice:
        for kind in LeverKind:
            if self._is_late():
                self.complete = False
                break
            result = self._pull(kind)
            if result is not None:
                self.found[kind] = result
        if not any(result.fits for result in self.found.values()):
            self._combine()
        levers = sorted([*self.found.values(), *([self.together] if self.together else [])], key=_rank)
        best = levers[0] if levers and levers[0].fits else None
        words = {
            front_end: word_settings(best.settings, front_end, best.plan) if best is not None else ""
            for front_end in FrontEnd
        }
        seconds = time.perf_counter() - self.started
        return Advice(self.subject.plan, tuple(levers), words, seconds, self.complete)

    def _pull(self, kind: LeverKind) -> LeverResult | None:
        """The gentlest value of a lever that fits, else the value that saves most."""
        strongest: LeverResult | None = None
        values = list(self._list_values(kind))
        if len(values) > 1 and kind is not LeverKind.MORE_IPUS:
            last = self._try((Setting(kind, values[-1]),))
            if last is None or not last.fits:  # the strongest is not enough, so no gentler one is
                return last
            strongest, values = last, values[:-1]
        for value in values:
            if self._is_late() and strongest is not None:
                break
            result = self._try((Setting(kind, value),))
            if result is None:
                continue
            if result.fits:
                return result
            if strongest is None or result.saved_tile_bytes > strongest.saved_tile_bytes:
                strongest = result
        return strongest

    def _list_values(self, kind: LeverKind) -> Iterable[float | int | None]:
        """What a lever can be set to, the gentlest first. Nothing where it is pulled already or there is none."""
        options, plan = self.subject.options, self.subject.plan
        training = options.training
        match kind:
            case LeverKind.MEMORY_PROPORTION:
                shares = [share for _, share in options.memory_proportions]
                lowest = min([*shares, *([] if len(shares) == plan.ipus else [options.available_memory_proportion])])
                return [share for share in _PROPORTIONS if share < lowest]
            case LeverKind.HALF_PARTIALS:
                return [] if options.half_partials else [None]
            case LeverKind.SHARED_STATE:
                shared = options.location_of(TensorRole.OPTIMIZER).replicated_sharding
                return [None] if self._has_state() and options.replicas > 1 and not shared else []
            case LeverKind.STATE_OFF_CHIP:
                return [None] if self._has_state() and self._can_move(TensorRole.OPTIMIZER) else []
            case LeverKind.ACTIVATIONS_OFF_CHIP:
                return [None] if training and self._can_move(TensorRole.ACTIVATION) else []
            case LeverKind.WEIGHTS_OFF_CHIP:
                return [None] if self._can_move(TensorRole.WEIGHT) else []
            case LeverKind.RECOMPUTE:
                return [None] if training and plan.pipeline is None and options.recompute is None else []
            case LeverKind.CHECKPOINTS:
                return [None] if training and options.recompute is not Recompute.ALL else []
            case LeverKind.SERIALISED_PRODUCTS:
                return _PIECES
            case LeverKind.MICRO_BATCH:
                return self._list_micro_batches()
            case LeverKind.MORE_IPUS:
                return self._list_ipus()

    def _has_state(self) -> bool:
        return self.subject.options.training and bool(self.subject.program.state_slots)

    def _can_move(self, role: TensorRole) -> bool:
        system = self.subject.system
        there = system.streaming_memory_bytes > 0 and system.streaming_bytes_per_second > 0
        return there and self.subject.options.location_of(role).on_chip

    def _list_micro_batches(self) -> list[int]:
        size, found = self.subject.plan.micro_batch, []
        while self.subject.recapture is not None and size > 1:
            size //= 2
            found.append(size)
        return found

    def _list_ipus(self) -> list[int]:
        system, options = self.subject.system, self.subject.options
        if system.ipu_link_bytes_per_second <= 0:
            return []
        count, found = self.subject.plan.ipus * 2, []
        while count * options.replicas <= system.ipus:
            found.append(count)
            count *= 2
        return found

    def _combine(self) -> None:
        """Pull levers together, those that save most first, until it fits; then let go of idle ones."""
        useful = [result for result in self.found.values() if result.saved_tile_bytes > 0]
        useful.sort(key=lambda result: (result.settings[0].kind is LeverKind.MORE_IPUS, -result.saved_tile_bytes))
        pulled: list[Setting] = []
        best: LeverResult | None = None
        for result in useful:
            if self._is_late(2.0):
                self.complete = False
                return
            if result.settings[0].kind is LeverKind.SHARED_STATE and _has(pulled, LeverKind.STATE_OFF_CHIP):
                continue
            tried = self._try((*pulled, *result.settings))
            if tried is None or (best is not None and tried.saved_tile_bytes <= best.saved_tile_bytes):
                continue  # it saves nothing beside the others
            best, pulled = tried, list(tried.settings)
            if tried.fits:
                break
        if best is None or len(pulled) < 2:
            return
        if best.fits:
            best = self._let_go(best)
        self.together = best

    def _let_go(self, best: LeverResult) -> LeverResult:
        for setting in best.settings:
            if len(best.settings) <= 1 or self._is_late(2.0):
                break
            fewer = tuple(entry for entry in best.settings if entry is not setting)
            tried = self._try(fewer)
            if tried is not None and tried.fits:
                best = tried
        return best

    def _try(self, settings: Sequence[Setting]) -> LeverResult | None:
        """None where the program or the machine does not allow these settings."""
        try:
            plan, completed = plan_again(self.subject, settings)
        except OpenIpuError:
            return None
        return LeverResult(completed, plan, self.subject.plan)

    def _is_late(self, factor: float = 1.0) -> bool:
        return time.perf_counter() - self.started > factor * self.seconds


def _has(settings: Iterable[Setting], kind: LeverKind) -> bool:
    return any(setting.kind is kind for setting in settings)


def _rank(result: LeverResult) -> tuple[bool, float]:
    """What fits comes first, the cheapest in front; then what saves most."""
    return not result.fits, result.paid_cycles if result.fits else -float(result.saved_tile_bytes)
