"""Turns a plan into a profile.

In: a `Plan`. Out: a `Profile` with the same figures, free of graphs, enums and PyTorch types.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

import openipu
from openipu.report.advice import AdviceRecord
from openipu.report.profile import (
    CulpritRecord,
    FitRecord,
    LineRecord,
    MemoryRecord,
    OpRecord,
    PipelineRecord,
    Profile,
    ProgramRecord,
    StageRecord,
    StepColumns,
    StepTileRecord,
    TimingRecord,
    VariableRecord,
)

if TYPE_CHECKING:
    from openipu.graph import SourceLine
    from openipu.plan.types import Fit, IpuMemory, Pipeline, Plan, PlannedOp, PlannedStep, StepTiles, Variable


def build_profile(plan: Plan, advice: AdviceRecord | None = None) -> Profile:
    """Everything of the plan that a report shows, with what was planned again for one that does not fit."""
    options = {field.name: getattr(plan.options, field.name) for field in dataclasses.fields(plan.options)}
    return Profile(
        openipu_version=openipu.__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        name=plan.name,
        micro_batch=plan.micro_batch,
        system=plan.system,
        options={name: simplify_value(value) for name, value in options.items()},
        ops=tuple(_convert_op(op) for op in plan.ops),
        steps=_convert_steps(plan.steps),
        variables=tuple(_convert_variable(variable) for variable in plan.variables),
        memory=tuple(_convert_memory(memory) for memory in plan.memory),
        fit=_convert_fit(plan.fit),
        timing=TimingRecord(
            micro_cycles=float(plan.timing.micro_cycles),
            update_cycles=float(plan.timing.update_cycles),
            host_cycles=float(plan.timing.host_cycles),
            call_cycles=float(plan.timing.call_cycles),
            clock_hz=float(plan.timing.clock_hz),
            samples_per_call=int(plan.timing.samples_per_call),
            guessed_cycles=float(plan.timing.guessed_cycles),
        ),
        guesses={str(op): int(count) for op, count in plan.guessed_ops.items()},
        planning_seconds=float(plan.planning_seconds),
        passes={str(name): float(seconds) for name, seconds in plan.passes.items()},
        warnings=tuple(plan.warnings),
        pipeline=None if plan.pipeline is None else _convert_pipeline(plan.pipeline),
        vertex_code_bytes={
            step.code.vertex: step.code.vertex_code_bytes
            for step in plan.steps
            if step.code is not None and step.code.vertex
        },
        tree=tuple(
            ProgramRecord(index, entry.kind, entry.name, entry.parent, entry.count, entry.first_step, entry.steps)
            for index, entry in enumerate(plan.tree)
        ),
        advice=advice,
    )


def simplify_value(value: Any) -> Any:
    """A value that JSON can hold and gives back unchanged."""
    if isinstance(value, enum.Enum):
        return simplify_value(value.value)
    if value is None or type(value) in (bool, int, float, str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: simplify_value(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): simplify_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [simplify_value(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return simplify_value(value.tolist())
    return str(value)


def _convert_line(line: SourceLine | None) -> LineRecord | None:
    return None if line is None else LineRecord(line.file, line.line, line.function)


def _convert_op(op: PlannedOp) -> OpRecord:
    return OpRecord(
        index=op.index,
        name=op.name,
        op=op.op,
        family=op.family.value,
        phase=op.phase.value,
        module=op.module,
        line=_convert_line(op.line),
        cycles=float(op.cycles),
        flops=int(op.flops),
        moved_bytes=int(op.moved_bytes),
        scratch_bytes_per_tile=int(op.scratch_bytes_per_tile),
        first_step=int(op.first_step),
        step_count=int(op.step_count),
        provenance=op.provenance.value,
        basis=op.basis,
        ipu=op.ipu,
        stage=op.stage,
        plan=simplify_value(op.plan),
        reads=tuple(op.reads),
        writes=tuple(op.writes),
    )


def _convert_steps(steps: tuple[PlannedStep, ...]) -> StepColumns:
    def pick(name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array([getattr(step, name) for step in steps], dtype=np.int64)

    def pick_code(name: str, otherwise: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        values = (otherwise if step.code is None else getattr(step.code, name) for step in steps)
        return np.fromiter(values, dtype=np.int64, count=len(steps))

    return StepColumns(
        kind=tuple(step.kind.value for step in steps),
        name=tuple(step.name for step in steps),
        phase=tuple(step.phase.value for step in steps),
        cycles=np.array([step.cycles for step in steps], dtype=np.float64),
        tiles=pick("tiles"),
        moved_bytes=pick("moved_bytes"),
        flops=pick("flops"),
        op=np.array([-1 if step.op is None else step.op for step in steps], dtype=np.int64),
        repeats=pick("repeats"),
        per_call=pick("per_call"),
        ipu=pick("ipu"),
        stage=pick("stage"),
        program=pick_code("program", -1),
        first_tile=pick_code("first_tile", 0),
        vertex=tuple("" if step.code is None else step.code.vertex for step in steps),
        vertices_per_tile=pick_code("vertices_per_tile", 0),
        state_bytes=pick_code("state_bytes", 0),
        exchange_code_bytes=pick_code("exchange_bytes", 0),
        control_code_bytes=pick_code("control_bytes", 0),
        by_tile={step.index: _convert_tiles(step.by_tile) for step in steps if step.by_tile is not None},
    )


def _convert_tiles(tiles: StepTiles) -> StepTileRecord:
    return StepTileRecord(
        executions=tiles.executions,
        cycles=tiles.cycles.astype(np.int64),
        busy_cycles=None if tiles.busy_cycles is None else np.rint(tiles.busy_cycles).astype(np.int64),
        vertices=None if tiles.vertices is None else tiles.vertices.astype(np.int64),
    )


def _convert_variable(variable: Variable) -> VariableRecord:
    mapping = variable.mapping
    places, held = getattr(mapping, "places", None), getattr(mapping, "held", None)  # of a program's own mapping
    return VariableRecord(
        index=variable.index,
        name=variable.name,
        kind=variable.kind.value,
        shape=tuple(int(size) for size in variable.shape),
        dtype=variable.dtype,
        first_tile=int(variable.mapping.first_tile),
        tiles=int(variable.mapping.tiles),
        total_bytes=int(variable.mapping.total_bytes),
        grain_bytes=int(variable.mapping.grain_bytes),
        always_live=bool(variable.always_live),
        first_step=int(variable.first_step),
        last_step=int(variable.last_step),
        op=None if variable.op is None else int(variable.op),
        ipu=variable.ipu,
        places=() if places is None else tuple(places.tolist()),
        held=() if held is None else tuple(held.tolist()),
    )


def _convert_memory(memory: IpuMemory) -> MemoryRecord:
    return MemoryRecord(
        ipu=memory.ipu,
        always_live=memory.always_live.astype(np.int64),
        categories={category.value: values.astype(np.int64) for category, values in memory.categories.items()},
        peak_not_always_live=memory.peak_not_always_live.astype(np.int64),
        peak_step_by_tile=memory.peak_step_by_tile.astype(np.int64),
        live_by_step=memory.live_by_step.astype(np.int64),
        fullest_by_step=memory.fullest_by_step.astype(np.int64),
    )


def _convert_fit(fit: Fit) -> FitRecord:
    culprits = tuple(
        CulpritRecord(
            name=str(culprit.name),
            kind=str(culprit.kind),
            bytes_on_tile=int(culprit.bytes_on_tile),
            bytes_total=int(culprit.bytes_total),
            module=culprit.module,
            line=_convert_line(culprit.line),
        )
        for culprit in fit.culprits
    )
    return FitRecord(
        fits=bool(fit.fits),
        limit_bytes=int(fit.limit_bytes),
        peak_bytes=int(fit.peak_bytes),
        peak_tile=int(fit.peak_tile),
        peak_ipu=int(fit.peak_ipu),
        peak_step=int(fit.peak_step),
        tiles_over=int(fit.tiles_over),
        bytes_over=int(fit.bytes_over),
        needed_bytes=int(fit.needed_bytes),
        culprits=culprits,
    )


def _convert_pipeline(pipeline: Pipeline) -> PipelineRecord:
    return PipelineRecord(
        stages=tuple(
            StageRecord(
                index=int(stage.index),
                ipu=int(stage.ipu),
                forward=bool(stage.forward),
                backward=bool(stage.backward),
                cycles=float(stage.cycles),
            )
            for stage in pipeline.stages
        ),
        micro_batches=int(pipeline.micro_batches),
        fill_cycles=tuple(float(cycles) for cycles in pipeline.fill_cycles),
        steady_cycles=float(pipeline.steady_cycles),
        steady_ticks=int(pipeline.steady_ticks),
        drain_cycles=tuple(float(cycles) for cycles in pipeline.drain_cycles),
    )
