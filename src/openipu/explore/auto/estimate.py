"""From segments to stages: what an IPU would need and take for any range of segments, without planning it.

In: `SegmentCosts` for each proportion. Out: cycles of a stage, peak bytes of an IPU. Estimates steer the search; what
the search offers has been planned in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from openipu.explore.auto.measure import Rows, SegmentCosts
from openipu.explore.auto.ranges import Range, RangeReader, Span
from openipu.explore.auto.types import Keep, Layout, Stage, StateHome
from openipu.machine import System
from openipu.ops.cost import CostStep, StepKind
from openipu.ops.vertex_code import estimate_control_code_bytes
from openipu.plan.pipeline import make_pipeline
from openipu.plan.types import PipelineStage

_LOAD = CostStep(StepKind.HOST, "load or store", 0.0, 0)
_GATHER = CostStep(StepKind.LINK, "gather shares", 0.0, 0)

Part = tuple[int, int, int]  # number of the stage, first segment, last segment


@dataclass(frozen=True, slots=True)
class Scheme:
    """All of a layout but the cuts and the proportions."""

    ipus: int  # of one replica
    replicas: int
    rounds: int  # micro-batches in the pipeline between two flushes
    keep: Keep
    state_home: StateHome
    tail: int | None = None  # first segment of a last stage that is back on IPU 0

    @property
    def shards(self) -> int:
        """Into how many shares the state of a parameter is cut."""
        return 1 if self.state_home is StateHome.ON_CHIP else self.replicas

    @property
    def last_stage(self) -> int:
        return self.ipus - 1 if self.tail is None else self.ipus


@dataclass(frozen=True, slots=True)
class IpuEstimate:
    """One IPU with its parts."""

    peak_bytes: float
    cycles: tuple[tuple[float, float], ...]  # forward and backward of each part
    busy_cycles: float


@dataclass(frozen=True, eq=False, slots=True)
class _Held:
    """Parts of one IPU before it is known which stages they are; bytes and times by proportion."""

    top: Rows  # at its fullest
    stays: tuple[Rows, ...]  # what each part keeps of one micro-batch
    cycles: tuple[tuple[tuple[float, float], ...], ...]
    busy_cycles: tuple[float, ...]


class Estimator:
    """Adds segments up. One estimator serves all schemes of one micro-batch size, and estimates nothing twice."""

    def __init__(self, costs: Mapping[float, SegmentCosts], system: System, training: bool) -> None:
        self.costs = dict(costs)
        self.system, self.training = system, training
        self.proportions = tuple(self.costs)
        self._ranges = RangeReader(tuple(self.costs.values()))
        self._known: dict[tuple[object, ...], tuple[IpuEstimate, ...]] = {}
        self._held: dict[tuple[object, ...], _Held] = {}

    @property
    def segments(self) -> int:
        return next(iter(self.costs.values())).segments

    def estimate(self, parts: Sequence[Part], scheme: Scheme, proportion: float) -> IpuEstimate:
        """One IPU that holds these parts."""
        return self.estimate_shares(tuple(parts), scheme)[self.proportions.index(proportion)]

    def estimate_shares(self, parts: tuple[Part, ...], scheme: Scheme) -> tuple[IpuEstimate, ...]:
        """One IPU that holds these parts, with each of the proportions."""
        key = (parts, scheme.keep, scheme.state_home, scheme.replicas, scheme.last_stage)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._add_up(parts, scheme)
        return found

    def _add_up(self, parts: tuple[Part, ...], scheme: Scheme) -> tuple[IpuEstimate, ...]:
        again = tuple(self.training and self._recomputes(number, scheme) for number, _, _ in parts)
        spans = tuple((first, last) for _, first, last in parts)
        key = (spans, again, scheme.keep, scheme.state_home, scheme.replicas)
        known = self._held.get(key)
        if known is None:
            known = self._held[key] = self._hold(spans, again, scheme)
        top = known.top
        for (number, _, _), stays in zip(parts, known.stays, strict=True):
            copies = 2 * (scheme.last_stage - number)  # of micro-batches on their way to the last stage and back
            if copies:
                top = top + stays * copies
        peaks = top.max(axis=1).tolist()
        return tuple(
            IpuEstimate(peak, cycles, busy)
            for peak, cycles, busy in zip(peaks, known.cycles, known.busy_cycles, strict=True)
        )

    def _hold(self, spans: tuple[Span, ...], again: tuple[bool, ...], scheme: Scheme) -> _Held:
        """All that does not depend on how far from the last stage the parts are."""
        read = self._ranges.read(spans)
        always = read.code.copy()
        stays: list[Rows] = []  # kept from forward to backward
        for part, recomputed in zip(read.parts, again, strict=True):
            always += part.held
            always += self._hold_state(part, scheme)
            always += self._hold_transfers(part.transfers, scheme)
            if not self.training:
                stays.append(np.zeros_like(part.moved))
            elif recomputed:
                stays.append(part.moved + part.inner if scheme.keep is Keep.LAYER_INPUTS else part.moved)
            else:
                stays.append(part.kept + part.moved)
        top = np.zeros_like(always)
        for turn, (part, recomputed) in enumerate(zip(read.parts, again, strict=True)):
            if not self.training:
                live = part.work + part.moved
            elif recomputed and scheme.keep is Keep.LAYER_INPUTS:
                live = stays[turn] + part.layer
            else:
                live = part.kept + part.moved + part.work
            for earlier in stays[:turn]:  # backward of a later part is done before that of an earlier one begins
                live = live + earlier
            if self.training:  # by the time of the update, activations are gone
                live = np.maximum(live, self._work_in_update(part, scheme))
            top = np.maximum(top, live)
        times = [
            tuple(
                _time_part(part, index, recomputed, self.training)
                for part, recomputed in zip(read.parts, again, strict=True)
            )
            for index in range(len(self.proportions))
        ]
        busy = tuple(sum(forward + backward for forward, backward in cycles) for cycles in times)
        return _Held(always + top, tuple(stays), tuple(times), busy)

    def estimate_call(self, layout: Layout, scheme: Scheme) -> float:
        """Samples a second of all replicas."""
        count = len(layout.stages)
        forward, backward = [0.0] * count, [0.0] * count
        update, exchanged = 0.0, 0.0
        for ipu in range(layout.ipus):
            parts = list_parts(layout, ipu)
            found = self.estimate(parts, scheme, layout.proportions[ipu])
            own, shared = self._time_update(self.costs[layout.proportions[ipu]], parts, scheme)
            update, exchanged = max(update, own), exchanged + shared
            for (number, _, _), (out, back) in zip(parts, found.cycles, strict=True):
                forward[number], backward[number] = out, back
        if count == 1:
            total = scheme.rounds * (forward[0] + backward[0])
        else:
            total = make_pipeline(
                _list_stages(layout.stages, forward, backward, self.training), scheme.rounds
            ).total_cycles
        costs = self.costs[layout.proportions[0]]
        samples = costs.micro_batch * scheme.rounds * scheme.replicas
        total += update + exchanged
        return samples / total * self.system.target.clock_hz if total else 0.0

    def estimate_peak(self, layout: Layout, scheme: Scheme) -> float:
        """Bytes of the fullest tile."""
        return max(
            self.estimate(list_parts(layout, ipu), scheme, layout.proportions[ipu]).peak_bytes
            for ipu in range(layout.ipus)
        )

    def _recomputes(self, number: int, scheme: Scheme) -> bool:
        """The last stage's backward follows at once: it keeps all, unless it is the only one."""
        return scheme.keep is not Keep.ALL and (number != scheme.last_stage or scheme.last_stage == 0)

    def _hold_state(self, part: Range, scheme: Scheme) -> Rows:
        if scheme.state_home is StateHome.ON_CHIP:
            return part.state
        if scheme.state_home is StateHome.SHARED:
            return part.whole_state + (part.state - part.whole_state) / scheme.replicas
        return np.zeros_like(part.state)

    def _hold_transfers(self, transfers: Rows, scheme: Scheme) -> Rows:
        """Code that moves state from and to off-chip memory, and gathers weights: a program for each tensor."""
        loaded, gathered = transfers[:, :1], transfers[:, 1:]
        code = np.zeros_like(loaded)
        if scheme.state_home is StateHome.OFF_CHIP:
            code += 2 * estimate_control_code_bytes(_LOAD) * loaded
        if scheme.shards > 1:
            code += estimate_control_code_bytes(_GATHER) * gathered
        return code

    def _work_in_update(self, part: Range, scheme: Scheme) -> Rows:
        """The update of one parameter after the other. A replica's share of it is laid out anew: twice the bytes."""
        work = part.update * (2 / scheme.shards if scheme.shards > 1 else 1)
        if scheme.state_home is StateHome.OFF_CHIP:
            work = work + part.largest_state / scheme.shards
        return work

    def _time_update(self, costs: SegmentCosts, parts: Sequence[Part], scheme: Scheme) -> tuple[float, float]:
        """Cycles of an IPU's own, and of exchanges between replicas, which IPUs do in turn."""
        if not self.training:
            return 0.0, 0.0
        system, held = self.system, [index for _, first, last in sorted(parts) for index in range(first, last + 1)]
        clock = system.target.clock_hz
        cycles, shared = float(costs.update_cycles[held].sum()), 0.0
        if scheme.replicas > 1 and system.ipu_link_bytes_per_second > 0:
            share = 2 * (scheme.replicas - 1) / scheme.replicas
            shared = share * float(costs.gradient_bytes[held].sum()) / system.ipu_link_bytes_per_second * clock
        if scheme.state_home is StateHome.OFF_CHIP and system.streaming_bytes_per_second > 0:
            moved = 2 * float(costs.state_bytes[held].sum()) / scheme.replicas
            cycles += moved / system.streaming_bytes_per_second * clock
        return cycles, shared


def _time_part(part: Range, index: int, recomputed: bool, training: bool) -> tuple[float, float]:
    """Cycles of forward and backward, with one of the proportions."""
    forward = part.forward[index]
    back = part.backward[index] + (part.backward_links[index] + (forward if recomputed else 0.0))
    return forward + part.forward_links[index], back if training else 0.0


def list_parts(layout: Layout, ipu: int) -> tuple[Part, ...]:
    """The parts of one IPU."""
    return tuple((number, stage.first, stage.last) for number, stage in enumerate(layout.stages) if stage.ipu == ipu)


def _list_stages(
    stages: Sequence[Stage], forward: Sequence[float], backward: Sequence[float], training: bool
) -> tuple[PipelineStage, ...]:
    last = len(stages) - 1
    listed = [PipelineStage(number, stage.ipu, True, False, forward[number]) for number, stage in enumerate(stages)]
    if not training:
        return tuple(listed)
    listed[last] = replace(listed[last], backward=True, cycles=forward[last] + backward[last])
    returning = [
        PipelineStage(2 * last - number, stages[number].ipu, False, True, backward[number])
        for number in range(last - 1, -1, -1)
    ]
    return (*listed, *returning)
