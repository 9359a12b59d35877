"""What a call gives back, and what a function of a micro-batch returns, by kind.

In: the function and its program. Out: where each kind of result stands in the tuple that the function returns; a
`RunResult` for a whole call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from openipu.graph import InputKind, OutputKind, Program
from openipu.run.engine.micro import MicroFunction
from openipu.run.outputs import combine_micro_batches


@dataclass(frozen=True, slots=True)
class MicroBatchTimes:
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


class ResultPlaces:
    """Where in the returned tuple each kind of result stands."""

    def __init__(self, function: MicroFunction, program: Program) -> None:
        places = list(enumerate(function.results))
        leaf_of = {entry.name: entry.index for entry in program.micro.inputs_of(InputKind.INPUT)}
        self.outputs = [entry for entry in function.results if entry.kind is OutputKind.OUTPUT]
        whole = {entry.index: entry for entry in program.micro.outputs_of(OutputKind.OUTPUT)}
        self.scalar = [not whole[entry.index].shape for entry in self.outputs]  # in one micro-batch
        self.output_positions = [index for index, entry in places if entry.kind is OutputKind.OUTPUT]
        self.changed = [(index, leaf_of[entry.name]) for index, entry in places if entry.kind is OutputKind.INPUT]
        stored = [(index, entry) for index, entry in places if entry.kind in (OutputKind.BUFFER, OutputKind.PARAMETER)]
        self.carried = [(index, entry.name) for index, entry in places if entry.kind is OutputKind.CARRIED]
        self.written = [index for index, _ in stored]
        self.targets = [(entry.kind, entry.name) for _, entry in stored]
        self.statistics = [index for index, entry in places if entry.kind is OutputKind.STATISTIC]
        self.tapped = [(index, entry.name) for index, entry in places if entry.kind is OutputKind.TAP]


def join_parts(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The new value of an input from those of its micro-batches. A 0-dim input is the same for all of them: the last
    one has the last word."""
    return parts[-1] if parts[0].dim() == 0 else combine_micro_batches(parts)
