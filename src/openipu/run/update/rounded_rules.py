"""Updates of half weights with stochastic rounding.

In: a program and its options. Out: an `UpdatePlan` that rounds stochastically. Without that, an update smaller than
half a step of a weight would be lost for ever. Where only new weights and new state are rounded, they keep the families
of the plain update: each rule computes in float32, and each tensor is rounded by bits of its own, those of the captured
graph. Else the update runs as it was captured.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import fx

from openipu.graph import Graph, InputKind, OutputKind, Program, RunOptions
from openipu.run.drafts.draft import Draft, draft_graph
from openipu.run.drafts.random_numbers import random_bits
from openipu.run.rewrites.half.rounding import apply_number_options, round_half
from openipu.run.rewrites.simplify import simplify
from openipu.run.update.rules import StochasticRounding, UpdatePlan, plan_update
from openipu.run.update.stacked_scalars import separate_scalars


def rounds_update(program: Program, options: RunOptions) -> bool:
    """Whether the update makes half numbers, and is to round them stochastically."""
    return options.stochastic_rounding and program.update is not None and _makes_half(program.update)


def _makes_half(update: Graph) -> bool:
    return any(entry.dtype is torch.float16 for entry in update.outputs)


def plan_rounded_update(program: Program, options: RunOptions) -> UpdatePlan:
    """The update of a program whose half weights are rounded stochastically."""
    assert program.update is not None
    captured = plan_captured_update(program, options)
    roundings = _find_roundings(captured.draft)
    if roundings is not None:
        plain = plan_update(program)
        if not plain.other_parameters:
            return replace(plain, roundings=roundings)
    return captured


def plan_captured_update(program: Program, options: RunOptions) -> UpdatePlan:
    """The update as it was captured, without families."""
    assert program.update is not None
    draft = draft_graph(program.update, program.constants)
    separate_scalars(draft)
    simplify(draft)
    apply_number_options(draft, options, update=True)
    names = tuple(entry.name for entry in program.update.outputs_of(OutputKind.PARAMETER))
    dtypes = {entry.name: entry.dtype for entry in program.update.inputs_of(InputKind.GRADIENT)}
    return UpdatePlan(draft, (), names, dtypes)


def _find_roundings(draft: Draft) -> dict[str, StochasticRounding] | None:
    """How each half weight and each half state is rounded; None if anything else is rounded, too."""
    found: dict[str, StochasticRounding] = {}
    for node, entry in zip(draft.results, draft.outputs, strict=True):
        if node.target is round_half and entry.kind in (OutputKind.PARAMETER, OutputKind.STATE):
            _, bits, overflow = node.args
            if not isinstance(bits, fx.Node) or bits.target is not random_bits or len(node.users) != 1:
                return None
            found[entry.name] = StochasticRounding(int(bits.args[1]), str(overflow))  # type: ignore[arg-type]
    count = sum(node.target is round_half for node in draft.graph.nodes)
    return found if count == len(found) else None
