"""What a call gives back.

In: what the function of a micro-batch returned, for each micro-batch of a call. Out: a `RunResult` for the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter as clock
from typing import Any, NamedTuple

import torch

from openipu.graph import OutputTree, RunOptions
from openipu.run.bindings import BoundFunction, Values
from openipu.run.outputs import OutputCollector, combine_micro_batches


class MicroBatchTimes(NamedTuple):
    """When one micro-batch passed each point, in seconds of this host's monotonic clock."""

    inputs_asked: float
    inputs_ready: float
    outputs_ready: float
    outputs_stored: float
    stored: bool  # the output mode keeps the outputs of this micro-batch


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one call gives back."""

    outputs: tuple[Any, ...]  # leaves of what forward returned, combined by the output mode
    changed_inputs: Mapping[int, torch.Tensor]  # input leaf -> its new value, for inputs that forward writes to
    taps: Mapping[str, torch.Tensor] = field(default_factory=dict)  # by the name of the tap
    times: tuple[MicroBatchTimes, ...] = ()  # measured on this host, in the order of the micro-batches


class ResultCollector:
    """Collects the outputs, changed inputs and times of a call of several micro-batches."""

    def __init__(self, bound: BoundFunction, options: RunOptions, tree: OutputTree) -> None:
        self._outputs = OutputCollector(options, [entry for _, entry in bound.outputs], bound.scalar, tree)
        self._positions = [index for index, _ in bound.outputs]
        self._changed: list[tuple[int, int, list[torch.Tensor]]] = [(index, leaf, []) for index, leaf in bound.changed]
        self._times: list[MicroBatchTimes] = []

    def take(self, position: int, factor: int, values: Values, asked: float, ready: float, done: float) -> None:
        """Take what a call of the function returned for `factor` micro-batches from a position on."""
        for index, _, parts in self._changed:
            parts.append(values[index])
        stored = self._outputs.take(position, factor, [values[index] for index in self._positions])
        self._times.extend(MicroBatchTimes(asked, ready, done, clock(), kept) for kept in stored)

    def combine(self, taps: Mapping[str, torch.Tensor]) -> RunResult:
        changed = {leaf: join_parts(parts) for _, leaf, parts in self._changed}
        return RunResult(self._outputs.combine(), changed, taps, tuple(self._times))


def join_parts(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The new value of an input from those of its micro-batches. A 0-dim input is the same for all of them: the last
    one has the last word."""
    return parts[-1] if parts[0].dim() == 0 else combine_micro_batches(parts)
