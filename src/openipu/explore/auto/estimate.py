"""From segments to stages: what an IPU would need and take for any range of segments, without planning it.

In: `SegmentCosts` for each proportion. Out: cycles of a stage, peak bytes of an IPU. Estimates steer the search; what
the search offers has been planned in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from openipu.explore.auto.measure import Crossing, Rows, SegmentCosts
from openipu.explore.auto.types import Keep, Layout, Stage, StateHome
from openipu.machine import System
from openipu.plan.pipeline import make_pipeline
from openipu.plan.types import PipelineStage

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
    def last_stage(self) -> int:
        return self.ipus - 1 if self.tail is None else self.ipus


@dataclass(frozen=True, slots=True)
class IpuEstimate:
    """One IPU with its parts."""

    peak_bytes: float
    cycles: tuple[tuple[float, float], ...]  # forward and backward of each part
    update_cycles: float

    @property
    def busy_cycles(self) -> float:
        return sum(forward + backward for forward, backward in self.cycles)


class Estimator:
    """Adds segments up. One estimator serves all schemes of one micro-batch size."""

    def __init__(self, costs: Mapping[float, SegmentCosts], system: System, training: bool) -> None:
        self.costs = dict(costs)
        self.system, self.training = system, training
        self._sums = {share: _Sums(entry) for share, entry in costs.items()}

    @property
    def proportions(self) -> tuple[float, ...]:
        return tuple(self.costs)

    @property
    def segments(self) -> int:
        return next(iter(self.costs.values())).segments

    def estimate(self, parts: Sequence[Part], scheme: Scheme, proportion: float) -> IpuEstimate:
        """One IPU that holds these parts."""
        costs, sums = self.costs[proportion], self._sums[proportion]
        members = {index for _, first, last in parts for index in range(first, last + 1)}
        live: list[Rows] = []
        retained: list[Rows] = []
        always = np.zeros(costs.fixed.shape[1])
        cycles: list[tuple[float, float]] = []
        seen: set[str] = set()
        for number, first, last in parts:
            always += sums.fixed[last + 1] - sums.fixed[first] + sums.accumulators[last + 1] - sums.accumulators[first]
            always += self._hold_state(sums.state[last + 1] - sums.state[first], scheme)
            entering = self._list_entering(costs, range(first, last + 1), members, seen)
            moved = sum(entry.tile_bytes for entry in entering if entry.kept)
            forward = float(sums.forward[last + 1] - sums.forward[first])
            forward_links = sum(entry.cycles for entry in entering if not entry.backward)
            if not self.training:
                live.append(costs.work[first : last + 1].max(axis=0) + moved)
                retained.append(np.zeros_like(always))
                cycles.append((forward + forward_links, 0.0))
                continue
            again = self._recomputes(number, scheme)
            backward = float(sums.backward[last + 1] - sums.backward[first])
            backward += sum(entry.cycles for entry in entering if entry.backward) + (forward if again else 0.0)
            cycles.append((forward + forward_links, backward))
            inner = self._sum_inner(costs, first, last) if again and scheme.keep is Keep.LAYER_INPUTS else 0.0
            kept = sums.kept[last + 1] - sums.kept[first]
            stays = np.full_like(always, moved + inner) if again else kept + moved
            always += stays * (2 * (scheme.last_stage - number))
            retained.append(stays)
            if again and scheme.keep is Keep.LAYER_INPUTS:
                part = slice(first, last + 1)
                live.append(stays + (costs.kept[part] + costs.work[part]).max(axis=0))
            else:
                live.append(kept + moved + costs.work[first : last + 1].max(axis=0))
        for kind in {costs.kind[index]: index for index in members}.values():
            always += costs.code[kind]
        highest = max(
            float((always + live[turn] + sum(retained[:turn]) + sum(retained[turn + 1 :])).max())
            for turn in range(len(parts))
        )
        return IpuEstimate(highest, tuple(cycles), self._time_update(costs, members, scheme))

    def estimate_call(self, layout: Layout, scheme: Scheme) -> float:
        """Samples a second of all replicas."""
        count = len(layout.stages)
        forward, backward = [0.0] * count, [0.0] * count
        update = 0.0
        for ipu in range(layout.ipus):
            parts = list_parts(layout, ipu)
            found = self.estimate(parts, scheme, layout.proportions[ipu])
            update = max(update, found.update_cycles)
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
        return samples / (total + update) * self.system.target.clock_hz if total + update else 0.0

    def estimate_peak(self, layout: Layout, scheme: Scheme) -> float:
        """Bytes of the fullest tile."""
        return max(
            self.estimate(list_parts(layout, ipu), scheme, layout.proportions[ipu]).peak_bytes
            for ipu in range(layout.ipus)
        )

    def _recomputes(self, number: int, scheme: Scheme) -> bool:
        """The last stage's backward follows at once: it keeps all, unless it is the only one."""
        return scheme.keep is not Keep.ALL and (number != scheme.last_stage or scheme.last_stage == 0)

    def _hold_state(self, state: Rows, scheme: Scheme) -> Rows:
        if scheme.state_home is StateHome.ON_CHIP:
            return state
        if scheme.state_home is StateHome.SHARED:
            return state / scheme.replicas
        return np.zeros_like(state)

    def _list_entering(self, costs: SegmentCosts, part: range, members: set[int], seen: set[str]) -> list[Crossing]:
        """What a part needs from other IPUs, each tensor once an IPU."""
        found: list[Crossing] = []
        for index in part:
            for entry in costs.crossings[index]:
                if entry.source not in members and entry.name not in seen:
                    seen.add(entry.name)
                    found.append(entry)
        return found

    def _sum_inner(self, costs: SegmentCosts, first: int, last: int) -> float:
        """Bytes on a tile of what passes between the segments of a part, and is read again in backward."""
        names: dict[str, float] = {}
        for index in range(first, last + 1):
            for entry in costs.crossings[index]:
                if entry.kept and first <= entry.source:
                    names[entry.name] = entry.tile_bytes
        return sum(names.values())

    def _time_update(self, costs: SegmentCosts, members: set[int], scheme: Scheme) -> float:
        if not self.training:
            return 0.0
        system, held = self.system, sorted(members)
        clock = system.target.clock_hz
        cycles = float(costs.update_cycles[held].sum())
        if scheme.replicas > 1 and system.ipu_link_bytes_per_second > 0:
            share = 2 * (scheme.replicas - 1) / scheme.replicas
            cycles += share * float(costs.gradient_bytes[held].sum()) / system.ipu_link_bytes_per_second * clock
        if scheme.state_home is StateHome.OFF_CHIP and system.streaming_bytes_per_second > 0:
            moved = 2 * float(costs.state_bytes[held].sum()) / scheme.replicas
            cycles += moved / system.streaming_bytes_per_second * clock
        return cycles


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


class _Sums:
    """Sums from the first segment on, so that any range is one subtraction."""

    def __init__(self, costs: SegmentCosts) -> None:
        self.fixed = _accumulate(costs.fixed)
        self.state = _accumulate(costs.state)
        self.accumulators = _accumulate(costs.accumulators)
        self.kept = _accumulate(costs.kept)
        self.forward = _accumulate(costs.forward_cycles)
        self.backward = _accumulate(costs.backward_cycles)


def _accumulate(values: Rows) -> Rows:
    result = np.zeros((len(values) + 1, *values.shape[1:]))
    np.cumsum(values, axis=0, out=result[1:])
    return result
