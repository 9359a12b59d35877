"""A whole profile of a chip with 16 tiles."""

from __future__ import annotations

import dataclasses

import numpy as np

from openipu.machine import System, resolve_system
from openipu.report import (
    CulpritRecord,
    FitRecord,
    LineRecord,
    MemoryRecord,
    OpRecord,
    PipelineRecord,
    Profile,
    StageRecord,
    StepColumns,
    TimingRecord,
    VariableRecord,
)

_TILES, _OPS, _STEPS_PER_OP = 16, 6, 3
_KINDS = ("exchange", "sync", "compute")
_PHASES = ("forward", "forward", "forward", "backward", "backward", "update")


def make_profile(stages: int = 0) -> Profile:
    """A program of six ops; with stages, in a pipeline over as many IPUs, of which the last does both directions."""
    whole = resolve_system("bow-2000")
    system = dataclasses.replace(whole, target=dataclasses.replace(whole.target, name="tiny", tiles=_TILES))
    ipus = max(1, stages)
    steps = _OPS * _STEPS_PER_OP
    line = LineRecord("model.py", 12, "forward")
    ops = tuple(
        OpRecord(
            index,
            f"op_{index}",
            "aten.mm",
            "linear",
            _PHASES[index],
            f"layer.{index}",
            line if index % 2 else None,
            1000.0 + index,
            4096,
            512,
            16,
            index * _STEPS_PER_OP,
            _STEPS_PER_OP,
            "published",
            "a rule",
            index % ipus,
            index % ipus,
            {"split": [2, 2, 4], "partials": "float16"},
            (index,),
            (index,),
        )
        for index in range(_OPS)
    )
    variables = tuple(
        VariableRecord(
            index,
            f"tensor {index}",
            ("weight", "activation")[index % 2],
            (8, 8),
            "float16",
            index,
            8,
            128,
            4,
            index % 2 == 0,
            0,
            steps - 1,
            index,
            index % ipus,
        )
        for index in range(_OPS)
    )
    return Profile(
        openipu_version="0.1.0",
        created="2024-01-01T00:00:00+00:00",
        name="tiny",
        micro_batch=4,
        system=system,
        options={
            "training": True,
            "device_iterations": 2,
            "gradient_accumulation": 4,
            "replicas": 1,
            "random_seed": None,
        },
        ops=ops,
        steps=_make_steps(steps, ipus),
        variables=variables,
        memory=tuple(_make_memory(ipu, steps) for ipu in range(ipus)),
        fit=FitRecord(True, 600_000, 5000, 3, 0, 4, 0, 0, 80_000, (CulpritRecord("w", "weight", 99, 990, "m", line),)),
        timing=TimingRecord(1000.0, 100.0, 50.0, 9000.0, 1.85e9, 32, 10.0),
        guesses={"aten.weird": 2},
        planning_seconds=0.5,
        passes={"lower": 0.1, "price": 0.2},
        warnings=("a warning",),
        pipeline=_make_pipeline(stages) if stages else None,
        vertex_code_bytes={"Matmul": 400},
    )


def _make_steps(count: int, ipus: int) -> StepColumns:
    numbers = np.arange(count)
    ops = numbers // _STEPS_PER_OP
    zeros, ones = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64)
    kinds = tuple(_KINDS[number % 3] for number in numbers.tolist())
    computes = numbers % 3 == 2
    return StepColumns(
        kind=kinds,
        name=kinds,
        phase=tuple(_PHASES[op] for op in ops.tolist()),
        cycles=numbers * 10.0,
        tiles=ones * _TILES,
        moved_bytes=numbers * 64,
        flops=numbers * 128,
        op=ops,
        repeats=ones,
        per_call=zeros,
        ipu=ops % ipus,
        stage=ops % ipus,
        program=np.where(computes, ops, -1),
        first_tile=zeros,
        vertex=tuple("Matmul" if compute else "" for compute in computes.tolist()),
        vertices_per_tile=np.where(computes, 6, 0),
        state_bytes=np.where(computes, 24, 0),
        exchange_code_bytes=ones * 8,
        control_code_bytes=ones * 4,
    )


def _make_memory(ipu: int, steps: int) -> MemoryRecord:
    tiles = np.arange(_TILES, dtype=np.int64)
    by_step = np.arange(steps, dtype=np.int64) * 100
    return MemoryRecord(
        ipu,
        tiles * 10,
        {"vertex code": tiles * 3, "control code": tiles + 1},
        tiles * 20,
        tiles % steps,
        by_step,
        by_step // 10,
    )


def _make_pipeline(stages: int) -> PipelineRecord:
    forward = [StageRecord(index, index, True, index == stages - 1, 100.0 + index) for index in range(stages)]
    backward = [StageRecord(2 * stages - 2 - index, index, False, True, 200.0) for index in range(stages - 2, -1, -1)]
    ticks = tuple(100.0 + index for index in range(2 * stages - 2))
    return PipelineRecord((*forward, *backward), 16, ticks, 300.0, 16 - (2 * stages - 2), ticks)


__all__ = ["System", "make_profile"]
