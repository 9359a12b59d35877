"""The compiled tier: the whole step as one graph through Inductor.

In: a program. Out: a `CompiledGraph`: forward, backward and update in one function that writes weights, buffers and
state in place, or one micro-batch where gradients accumulate. Compilation takes from seconds to minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from openipu.errors import OptionError
from openipu.graph import InputKind, OutputKind, Program
from openipu.run.aliasing import draws_random_numbers
from openipu.run.control import holds_calls
from openipu.run.device_memory import DeviceMemory
from openipu.run.draft import Draft, draft_graph
from openipu.run.micro import MicroFunction, draft_micro, list_updated
from openipu.run.passes import simplify
from openipu.run.updater import find_value

aten = torch.ops.aten

_WRITTEN = (OutputKind.PARAMETER, OutputKind.STATE, OutputKind.BUFFER)


@dataclass(frozen=True, eq=False)
class CompiledGraph:
    """A compiled draft, apart from the memory that it runs on."""

    draft: Draft
    call: Callable[..., Sequence[torch.Tensor]]
    updates: bool  # writes new weights and state by itself

    def bind(self, memory: DeviceMemory) -> MicroFunction:
        """A function of inputs and buffers on this memory."""
        values = list_values(self.draft, memory)
        slots = [index for index, value in enumerate(values) if value is None]
        entries = {entry.node: entry for entry in self.draft.inputs}
        names = [node.name for node in self.draft.graph.find_nodes(op="placeholder")]
        compiled = self.call

        def call(*changing: torch.Tensor) -> Sequence[torch.Tensor]:
            full = list(values)
            for index, value in zip(slots, changing, strict=True):
                full[index] = value
            return compiled(*full)

        return MicroFunction(
            call=call,
            arguments=tuple(entries[names[index]] for index in slots),
            results=self.draft.outputs,
            random=any(draws_random_numbers(node) for node in self.draft.graph.nodes),
        )


def compile_program(program: Program, memory: DeviceMemory, whole_step: bool) -> CompiledGraph:
    """Compile a whole training step, or one micro-batch where gradients accumulate and for inference."""
    updates = whole_step and program.update is not None
    if updates:
        draft = draft_step(program)
    else:
        draft = draft_micro(program, list_updated(program))
    if holds_calls(draft):
        raise OptionError("it holds loops, branches or functions of the host, which only the instant tier runs")
    with torch.no_grad():
        examples = [
            torch.zeros(node.meta["val"].shape, dtype=node.meta["val"].dtype) if value is None else value
            for node, value in zip(draft.graph.find_nodes(op="placeholder"), list_values(draft, memory), strict=True)
        ]
        return CompiledGraph(draft, _compile(draft, examples), updates)


def list_values(draft: Draft, memory: DeviceMemory) -> list[torch.Tensor | None]:
    """What stands behind each placeholder; None for inputs and buffers, which change from call to call."""
    entries = {entry.node: entry for entry in draft.inputs}
    values: list[torch.Tensor | None] = []
    for node in draft.graph.find_nodes(op="placeholder"):
        value = draft.bound.get(node.name)
        values.append(find_value(entries[node.name], memory) if value is None else value)
    return values


def draft_step(program: Program) -> Draft:
    """`micro` and `update` as one graph that ends by writing all new values over the old ones."""
    assert program.update is not None
    draft = draft_micro(program, list_updated(program))
    update = draft_graph(program.update, program.constants)
    simplify(update)
    values = {(entry.kind, entry.name): node for node, entry in zip(draft.results, draft.outputs, strict=True)}
    placeholders = {(entry.kind.value, entry.name): draft.placeholder(entry.node) for entry in draft.inputs}
    inputs = list(draft.inputs)
    copies: dict[fx.Node, fx.Node] = {}
    for node in update.graph.find_nodes(op="placeholder"):
        entry = next((entry for entry in update.inputs if entry.node == node.name), None)
        if entry is None or entry.kind is InputKind.CONSTANT:
            copies[node] = draft.add_placeholder(f"update_{node.name}", update.bound[node.name])
            continue
        if entry.kind is InputKind.GRADIENT:
            copies[node] = values[OutputKind.GRADIENT, entry.name]
            continue
        key = (entry.kind.value, entry.name)
        if key not in placeholders:
            placeholders[key] = _append_placeholder(draft, f"update_{node.name}")
            inputs.append(replace(entry, node=placeholders[key].name))
        copies[node] = placeholders[key]
        if entry.kind is InputKind.PARAMETER:  # forward may have written to it
            copies[node] = values.get((OutputKind.PARAMETER, entry.name), placeholders[key])
    returned = list(zip(draft.results, draft.outputs, strict=True))
    with draft.graph.inserting_before(draft.output_node):
        for node in update.graph.nodes:
            if node.op == "call_function":
                copies[node] = draft.graph.node_copy(node, copies.__getitem__)
        updates = [(copies[node], entry) for node, entry in zip(update.results, update.outputs, strict=True)]
        updated = {(entry.kind, entry.name) for _, entry in updates}
        writes = [pair for pair in returned if pair[1].kind in _WRITTEN and (pair[1].kind, pair[1].name) not in updated]
        for value, result in (*writes, *updates):
            target = placeholders[result.kind.value, result.name]
            if value is not target:
                draft.graph.call_function(aten.copy_.default, (target, value))
    kept = [pair for pair in returned if pair[1].kind in (OutputKind.OUTPUT, OutputKind.INPUT)]
    draft.replace_results([node for node, _ in kept], [entry for _, entry in kept])
    draft.inputs = tuple(inputs)
    return draft


def _append_placeholder(draft: Draft, name: str) -> fx.Node:
    first = next(iter(draft.graph.nodes))
    with draft.graph.inserting_before(first):
        return draft.graph.placeholder(name)


def _compile(draft: Draft, examples: Sequence[torch.Tensor]) -> Callable[..., Sequence[torch.Tensor]]:
    from torch._inductor import compile as compile_with_inductor

    options: dict[str, Any] = {
        # In a graph with forward and backward, weights and gradients would be reordered in every step.
        "layout_optimization": False,
        # Draw random numbers as eager PyTorch does: both tiers give the same dropout.
        "fallback_random": True,
    }
    if _holds_half(draft):
        options["emulate_precision_casts"] = True  # otherwise fused code skips the rounding to half
    module = fx.GraphModule(torch.nn.Module(), draft.graph)
    compiled: Callable[..., Sequence[torch.Tensor]] = compile_with_inductor(module, list(examples), options=options)
    return compiled


def _holds_half(draft: Draft) -> bool:
    return any(
        getattr(node.meta.get("val"), "dtype", None) in (torch.float16, torch.bfloat16) for node in draft.graph.nodes
    )
