"""The function that runs one micro-batch.

In: a program's `micro` graph, the device memory, the updater. Out: a generated function of the inputs and the buffers
of one replica. Gradients do not leave it where they need not: each is added to its accumulator, or applied to the
weights, as soon as it is there and nothing reads the old weights any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from openipu.graph import GraphInput, GraphOutput, InputKind, OutputKind, Program, Reduction, RunOptions
from openipu.run.drafts.aliasing import draws_random_numbers, find_owner
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.draft import Draft, draft_graph
from openipu.run.half.rounded_draws import fuse_draws
from openipu.run.half.rounding import apply_number_options
from openipu.run.half.wide_weights import read_wide_weights
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.passes.accumulation import accumulate_gradients, add_rows_in_place, take_gradients
from openipu.run.passes.float_exceptions import check_arithmetic
from openipu.run.passes.loss_scale import add_statistics
from openipu.run.passes.onednn_products import use_onednn_products
from openipu.run.passes.packed_weights import pack_weights
from openipu.run.passes.simplify import own_outputs, simplify
from openipu.run.taps import add_taps
from openipu.run.update.buckets import Bucket
from openipu.run.update.updater import Updater, find_value

aten = torch.ops.aten


@dataclass(frozen=True, eq=False)
class MicroFunction:
    """`call` takes `arguments` (inputs and buffers) in order, and returns `results` in order."""

    call: Callable[..., Sequence[torch.Tensor]]
    arguments: tuple[GraphInput, ...]
    results: tuple[GraphOutput, ...]
    random: bool  # draws random numbers


def draft_micro(program: Program, options: RunOptions) -> Draft:
    """The simplified micro graph, which returns only what a run needs."""
    gradients = list_updated(program)
    draft = draft_graph(program.micro, program.constants)
    add_taps(draft, program, options.taps)
    kept = [
        (node, entry)
        for node, entry in zip(draft.results, draft.outputs, strict=True)
        if entry.kind is not OutputKind.LOSS and (entry.kind is not OutputKind.GRADIENT or entry.name in gradients)
    ]
    draft.replace_results([node for node, _ in kept], [entry for _, entry in kept])
    if options.loss_scale_control is not None:
        add_statistics(draft, options.loss_scale_control)
    simplify(draft)
    apply_number_options(draft, options)
    read_wide_weights(draft, program)
    own_outputs(draft)
    return draft


def list_updated(program: Program) -> frozenset[str]:
    """Parameters whose gradients the update reads."""
    if program.update is None:
        return frozenset()
    return frozenset(entry.name for entry in program.update.inputs_of(InputKind.GRADIENT))


def weigh_micro_batch(options: RunOptions) -> float:
    """The weight of one micro-batch in the reduced gradient."""
    batches = options.gradient_accumulation * options.replicas * options.instances
    return 1 / batches if options.reduction is Reduction.MEAN else 1.0


def build_micro(
    draft: Draft, name: str, memory: DeviceMemory, updater: Updater | None, options: RunOptions, accumulates: bool
) -> MicroFunction:
    """Generate the function of a draft of one micro-batch, or of several folded into one."""
    random = any(draws_random_numbers(node) for node in draft.graph.nodes)
    scale = weigh_micro_batch(options)
    if updater is not None and accumulates:
        accumulate_gradients(draft, updater.accumulators, scale, single=options.floating_point_exceptions)
    elif updater is not None:
        scale_gradients(draft, scale)
        apply_updates(draft, updater.ready_buckets, frozenset(updater.late_gradients))
    if options.floating_point_exceptions:
        check_arithmetic(draft)  # last: the passes above read the operators' schemas
    else:
        if not options.training:
            pack_weights(draft, memory)
        add_rows_in_place(draft)
        use_onednn_products(draft)
        fuse_draws(draft.graph)
    bound = dict(draft.bound)
    for entry in draft.inputs:
        value = find_value(entry, memory)
        if value is not None:
            bound[entry.node] = value
    return MicroFunction(
        call=generate_function(draft.graph, bound, f"{name} micro-batch"),
        arguments=tuple(entry for entry in draft.inputs if entry.node not in bound),
        results=draft.outputs,
        random=random,
    )


def scale_gradients(draft: Draft, scale: float) -> None:
    """Multiply what the draft returns as gradients."""
    if scale == 1:
        return
    nodes = draft.results
    for index, entry in enumerate(draft.outputs):
        if entry.kind is OutputKind.GRADIENT:
            with draft.graph.inserting_after(nodes[index]):
                scaled = draft.graph.call_function(aten.mul.Tensor, (nodes[index], scale))
            scaled.meta = dict(nodes[index].meta)
            nodes[index] = scaled
    draft.replace_results(nodes, draft.outputs)


def apply_updates(draft: Draft, buckets: Sequence[Bucket], kept: frozenset[str]) -> None:
    """Update the parameters of each bucket as soon as their gradients are there and their old values are not needed."""
    gradients = take_gradients(draft, kept)
    order = {node: index for index, node in enumerate(draft.graph.nodes)}
    last_read: dict[str, fx.Node] = {}
    for node in draft.graph.nodes:
        for source in node.all_input_nodes:
            owner = find_owner(source)
            if owner.op == "placeholder":
                last_read[owner.name] = node
    names = {entry.name: entry.node for entry in draft.inputs if entry.kind is InputKind.PARAMETER}
    for bucket in buckets:
        nodes = [gradients[name] for name in bucket.parameters]
        reads = [last_read[names[name]] for name in bucket.parameters if names.get(name) in last_read]
        position = max([*nodes, *reads], key=order.__getitem__)
        with draft.graph.inserting_after(position):
            draft.graph.create_node("call_function", bucket.apply, tuple(nodes), name="update")
