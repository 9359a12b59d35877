"""Passes "fit" and "time": does it fit, who is responsible if not, and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence

from openipu.graph import Phase, RunOptions
from openipu.machine import Provenance, System
from openipu.ops.cost import StepKind
from openipu.plan.pipeline import measure_micro_batch
from openipu.plan.types import (
    Culprit,
    Fit,
    IpuMemory,
    Pipeline,
    PlannedOp,
    PlannedStep,
    Timing,
    Variable,
)
from openipu.plan.work import Workload

CULPRITS = 12


def judge_fit(
    memory: Sequence[IpuMemory], variables: Sequence[Variable], ops: Sequence[PlannedOp], system: System
) -> Fit:
    """Compare every tile's worst step with what a tile has."""
    limit = system.target.usable_tile_bytes
    worst = max(memory, key=lambda entry: int(entry.peak.max()))
    peak = worst.peak
    tile = int(peak.argmax())
    step = int(worst.peak_step_by_tile[tile])
    over = [entry.peak[entry.peak > limit] - limit for entry in memory]
    return Fit(
        fits=all(part.size == 0 for part in over),
        limit_bytes=limit,
        peak_bytes=int(peak[tile]),
        peak_tile=tile,
        peak_ipu=worst.ipu,
        peak_step=step,
        tiles_over=sum(part.size for part in over),
        bytes_over=sum(int(part.sum()) for part in over),
        needed_bytes=sum(int(entry.peak.sum()) for entry in memory),
        culprits=_find_culprits(worst, tile, step, variables, ops, system),
    )


def _find_culprits(
    memory: IpuMemory,
    tile: int,
    step: int,
    variables: Sequence[Variable],
    ops: Sequence[PlannedOp],
    system: System,
) -> tuple[Culprit, ...]:
    """What fills the fullest tile at its worst step, largest first."""
    tiles = system.target.tiles
    found: list[Culprit] = []
    for variable in variables:
        live = variable.always_live or variable.first_step <= step <= variable.last_step
        if variable.ipu != memory.ipu or not live:
            continue
        offset = (tile - variable.mapping.first_tile) % tiles
        if offset >= variable.mapping.tiles:
            continue
        on_tile = int(variable.mapping.bytes_by_tile(tiles)[tile])
        op = ops[variable.op] if variable.op is not None else None
        owner = variable.name.rpartition(":")[2]  # state is named "exp_avg:<parameter>"
        module = op.module if op else owner.rpartition(".")[0]
        found.append(Culprit(variable.name, variable.kind, on_tile, variable.bytes, module, op.line if op else None))
    for category, values in memory.categories.items():
        found.append(Culprit(category, "code", int(values[tile]), int(values.sum()), "", None))
    found.sort(key=lambda culprit: -culprit.bytes_on_tile)
    return tuple(found[:CULPRITS])


def time_program(
    workload: Workload,
    steps: Sequence[PlannedStep],
    ops: Sequence[PlannedOp],
    options: RunOptions,
    system: System,
) -> tuple[Timing, Pipeline | None]:
    """Add the steps up: micro-batch, update, one call."""
    busy = measure_micro_batch(steps, options, workload.last_stage)
    host = sum(step.cycles for step in steps if step.kind is StepKind.HOST and not step.per_call)
    once = sum(step.cycles for step in steps if step.per_call)
    repeats = options.gradient_accumulation
    guessed = 0.0
    for op in ops:
        if op.provenance is Provenance.GUESSED:
            guessed += op.cycles * (1 if op.phase is Phase.UPDATE else repeats)
    rounds = options.device_iterations
    if busy.pipeline is None:
        call_cycles = rounds * (repeats * busy.cycles + busy.update_cycles)
    elif options.continuous:
        call_cycles = busy.pipeline.total_cycles + rounds * busy.update_cycles
    elif options.training:
        call_cycles = rounds * (busy.pipeline.total_cycles + busy.update_cycles)
    else:
        call_cycles = busy.pipeline.total_cycles
    timing = Timing(
        micro_cycles=busy.cycles,
        update_cycles=busy.update_cycles,
        host_cycles=host,
        call_cycles=call_cycles + once,
        clock_hz=system.target.clock_hz,
        samples_per_call=workload.micro_batch * options.micro_batches,
        guessed_cycles=rounds * guessed,
    )
    return timing, busy.pipeline
