"""The function that runs one micro-batch.

In: a program's `micro` graph, the device memory, the updater. Out: a generated function of the inputs and the buffers
of one replica. Gradients do not leave it where they need not: each is added to its accumulator, or applied to the
weights, as soon as it is there and nothing reads the old weights any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from openipu.graph import GraphInput, GraphOutput, Program, Reduction, RunOptions
from openipu.run.drafts.aliasing import draws_random_numbers
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.draft import Draft, draft_graph
from openipu.run.drafts.passes import apply_passes
from openipu.run.engine import pass_list
from openipu.run.engine.setting import Setting
from openipu.run.kernels import KernelLibrary
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.update.updater import Updater, find_value


@dataclass(frozen=True, eq=False)
class MicroFunction:
    """`call` takes `arguments` (inputs and buffers) in order, and returns `results` in order."""

    call: Callable[..., Sequence[torch.Tensor]]
    arguments: tuple[GraphInput, ...]
    results: tuple[GraphOutput, ...]
    random: bool  # draws random numbers


def draft_micro(program: Program, options: RunOptions) -> Draft:
    """The simplified micro graph, which returns only what a run needs."""
    draft = draft_graph(program.micro, program.constants)
    apply_passes(pass_list.MICRO, draft, Setting(program, options), options.without_rules)
    return draft


def weigh_micro_batch(options: RunOptions) -> float:
    """The weight of one micro-batch in the reduced gradient."""
    across = options.replica_reduction or options.reduction
    batches = options.gradient_accumulation if options.reduction is not Reduction.SUM else 1
    batches *= options.replicas * options.instances if across is not Reduction.SUM else 1
    return 1 / batches


def build_micro(
    draft: Draft,
    program: Program,
    memory: DeviceMemory,
    updater: Updater | None,
    options: RunOptions,
    accumulates: bool,
    library: KernelLibrary,
) -> MicroFunction:
    """Generate the function of a draft of one micro-batch, or of several as a batch."""
    random = any(draws_random_numbers(node) for node in draft.graph.nodes)
    setting = Setting(program, options, weigh_micro_batch(options), memory, updater, accumulates, library)
    apply_passes(pass_list.BOUND, draft, setting, options.without_rules)
    bound = dict(draft.bound)
    for entry in draft.inputs:
        value = find_value(entry, memory)
        if value is not None:
            bound[entry.node] = value
    return MicroFunction(
        call=generate_function(draft.graph, bound, f"{program.name} micro-batch"),
        arguments=tuple(entry for entry in draft.inputs if entry.node not in bound),
        results=draft.outputs,
        random=random,
    )
