"""The rows of `profile.pop` as types: what stands in each column, in order."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from openipu.files.values import Count, Cycles, Finite, Index, Positive, Text, Whole

Flag = Annotated[int, msgspec.Meta(ge=0, le=1)]
Reference = Count | None

MetaRow = tuple[Text, Any]
FigureRow = tuple[Text, Text, int | float | Text | None, Text | None, Text | None]
OptionRow = tuple[Text, Text]
LineRow = tuple[Count, Text, Whole, Text]
OpRow = tuple[
    Count, Text, Text, Text, Text,  # index, name, op, family, phase
    Text, Reference, Cycles, Count, Count,  # module, line, cycles, flops, moved bytes
    Count, Count, Count, Text, Text,  # scratch bytes, first step, steps, provenance, basis
    Count, Whole, Text, Text, Text,  # ipu, stage, plan, reads, writes
]  # fmt: skip
StepRow = tuple[
    Count, Text, Text, Text, Cycles,  # index, kind, name, phase, cycles
    Count, Count, Count, Reference, Count,  # tiles, moved bytes, flops, op, repeats
    Flag, Count, Whole, Index, Count,  # once a call, ipu, stage, program, first tile
    Text, Count, Count, Count, Count,  # vertex, vertices, state, exchange code, control code
]  # fmt: skip
VariableRow = tuple[
    Count, Text, Text, Text, Text,  # index, name, kind, shape, number format
    Count, Count, Count, Count, Flag,  # first tile, tiles, bytes, grain, always live
    Whole, Whole, Reference, Count,  # first step, last step, op, ipu
]  # fmt: skip
VariableTilesRow = tuple[Count, Count, bytes, bytes]  # variable, tiles, places, held bytes
StepTilesRow = tuple[Count, Count, bytes, bytes | None, bytes | None]  # step, executions, cycles, busy, vertices
ProgramRow = tuple[Count, Text, Text, Index, Count, Index, Count]  # index, type, name, parent, count, first step, steps
LiveRow = tuple[Count, bytes, bytes]
TileRow = tuple[Count, Count, Whole]
CategoryRow = tuple[Text, bytes]
FitRow = tuple[Flag, Count, Count, Count, Count, Whole, Count, Count, Count]
CulpritRow = tuple[Count, Text, Text, Count, Count, Text, Reference]
TimingRow = tuple[Positive, Positive, Positive, Positive, Positive, Count, Positive]
PipelineRow = tuple[Annotated[int, msgspec.Meta(ge=1, le=1 << 32)], Cycles, Count]
StageRow = tuple[Count, Count, Flag, Flag, Cycles]
TickRow = tuple[Text, Count, Cycles]
AdviceRow = tuple[Text, Text, Count, Positive]  # front end, not tried, plans, seconds
LeverRow = tuple[
    Count, Text, Flag, Count, Whole,  # index, title, fits, peak, saved on the fullest tile
    Whole, Finite, Positive | None,  # saved in all, paid cycles, slowdown
]  # fmt: skip
WordsRow = tuple[Count, Text, Text]  # lever, front end, line
NumberRow = tuple[Text, Count]
SecondsRow = tuple[Text, Positive]


class MetaValues(msgspec.Struct, frozen=True):
    """The table `meta`, as far as it is read."""

    openipu_version: Text
    created: Text
    name: Text
    micro_batch: Count
    planning_seconds: Positive


class KnownOptions(msgspec.Struct, frozen=True):
    """The options that reports compute with; the others are only shown."""

    training: bool = False
    device_iterations: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)] = 1
    gradient_accumulation: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)] = 1
    replicas: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)] = 1
