"""Library ops priced by the op table: each ATen call is one op of the plan, as from a model in PyTorch.

In: a `LibraryOp`. Out: its ops with steps, a sync before each exchange. What lies between calls lies evenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from openipu.graph.mapped.formats import choose_format
from openipu.graph.mapped.program import MAX_POOL_GRADIENT, LibraryCall, LibraryOp, MappedProgram, Value
from openipu.ops import cost_op
from openipu.ops.cost import CostContext, CostStep, Operand, OpSite, StepKind
from openipu.plan.mapped.steps import LeafOp, LeafStep, StepBuilder


def plan_library_op(builder: StepBuilder, op: LibraryOp) -> tuple[LeafOp, ...]:
    """The ops of one library call, in order; those that are free of cost too."""
    program = builder.program
    values = {number: Operand(view.shape, choose_format(view.type)) for number, view in enumerate(op.inputs)}
    context = CostContext(program.system.target, program.tiles_per_ipu)
    found = []
    for call in op.calls:
        outputs = tuple(
            Operand(shape, getattr(torch, format_))
            for shape, format_ in zip(call.shapes, call.formats, strict=True)
            if format_
        )
        cost = cost_op(_make_site(call, values, outputs), context)
        steps: list[LeafStep] = []
        for step in cost.steps:
            steps.extend(_convert(builder, program, step, bool(steps) and steps[-1].kind is StepKind.EXCHANGE))
        found.append(
            LeafOp(
                name=f"{op.name}/{call.op.split('.')[1]}",
                op=call.op,
                family=cost.family,
                steps=tuple(steps),
                provenance=cost.provenance,
                basis=cost.basis,
                flops=cost.flops,
                scratch_bytes_per_tile=cost.scratch_bytes_per_tile,
                plan=dict(cost.plan),
            )
        )
        for number, shape, format_ in zip(call.results, call.shapes, call.formats, strict=True):
            if number >= 0:
                values[number] = Operand(shape, getattr(torch, format_))
    return tuple(found)


def _make_site(call: LibraryCall, values: Mapping[int, Operand], outputs: tuple[Operand, ...]) -> OpSite:
    if call.kernel == "dropout":
        given = values[call.args[-1].number]
        return OpSite(call.op, (given, 0.5, True), {}, (given, Operand(given.shape, torch.bool)))
    if call.kernel and call.kernel != MAX_POOL_GRADIENT:
        return OpSite(call.op, (list(call.shapes[0]),), {}, outputs)
    args = tuple(_fill(value, values) for value in call.args)
    return OpSite(call.op, args, {name: _fill(value, values) for name, value in call.kwargs.items()}, outputs)


def _fill(value: Any, values: Mapping[int, Operand]) -> Any:
    if isinstance(value, Value):
        return values[value.number]
    if isinstance(value, list | tuple):
        return type(value)(_fill(item, values) for item in value)
    return value


def _convert(builder: StepBuilder, program: MappedProgram, step: CostStep, follows: bool) -> list[LeafStep]:
    """One phase of the op table, on the first tiles of the first IPU."""
    by_tile = np.zeros(program.tiles, dtype=np.float64)
    count = min(step.tiles, program.tiles_per_ipu)
    by_tile[:count] = step.total_cycles
    vertices = None
    if step.kind is StepKind.COMPUTE and step.vertex:
        vertices = np.zeros(program.tiles, dtype=np.int64)
        vertices[:count] = step.vertices_per_tile
    made = LeafStep(
        step.kind,
        step.name,
        by_tile,
        moved_bytes=step.moved_bytes * step.repeats,
        flops=step.flops * step.repeats,
        vertices_by_tile=vertices,
        vertex=step.vertex,
        pieces=step.messages_per_tile if step.kind is StepKind.EXCHANGE else 0,
    )
    syncs = step.repeats - (1 if follows else 0)
    if step.kind is not StepKind.EXCHANGE or syncs < 1:
        return [made]
    sync = LeafStep(StepKind.SYNC, "sync", np.full(program.tiles, builder.sync_cycles * syncs))
    return [sync, made]
