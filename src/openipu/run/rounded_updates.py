"""Updates of half weights with stochastic rounding.

In: a program and its options. Out: an `UpdatePlan` without families: each parameter needs random bits of its own, so
the update runs as it was captured. Without it, an update smaller than half a step of a weight would be lost for ever.
"""

from __future__ import annotations

import torch

from openipu.graph import Graph, InputKind, OutputKind, Program, RunOptions
from openipu.run.draft import draft_graph
from openipu.run.passes import simplify
from openipu.run.rounding import apply_number_options
from openipu.run.scalar_lanes import separate_scalars
from openipu.run.update_rules import UpdatePlan


def rounds_update(program: Program, options: RunOptions) -> bool:
    """Whether the update makes half numbers, and is to round them stochastically."""
    return options.stochastic_rounding and program.update is not None and _makes_half(program.update)


def _makes_half(update: Graph) -> bool:
    return any(entry.dtype is torch.float16 for entry in update.outputs)


def plan_rounded_update(program: Program, options: RunOptions) -> UpdatePlan:
    """The whole update as one graph that rounds stochastically."""
    assert program.update is not None
    draft = draft_graph(program.update, program.constants)
    separate_scalars(draft)
    simplify(draft)
    apply_number_options(draft, options, update=True)
    names = tuple(entry.name for entry in program.update.outputs_of(OutputKind.PARAMETER))
    dtypes = {entry.name: entry.dtype for entry in program.update.inputs_of(InputKind.GRADIENT)}
    return UpdatePlan(draft, (), names, dtypes)
