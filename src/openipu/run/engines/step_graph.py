"""Graphs for the compiled tier, which write their results in place.

In: a draft of one micro-batch, or of several folded into one, and the program's update. Out: a draft of the whole step;
or, where an update needs several calls, one that adds gradients to accumulators and another one that applies them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from openipu.graph import WRITES_PARAMETER, GraphInput, InputKind, OutputKind, Program, RunOptions
from openipu.run.drafts.draft import Draft, draft_graph
from openipu.run.half.rounding import apply_number_options
from openipu.run.passes.seeded_random import set_value
from openipu.run.passes.simplify import remove_dead_code, share_equal_values, simplify
from openipu.run.update.in_graph import scale_gradients
from openipu.run.update.scalar_lanes import separate_scalars

aten = torch.ops.aten

_WRITTEN = (OutputKind.PARAMETER, OutputKind.CARRIED, OutputKind.STATE, OutputKind.BUFFER)
_RETURNED = (OutputKind.OUTPUT, OutputKind.INPUT, OutputKind.STATISTIC)


def draft_step(program: Program, options: RunOptions, micro: Draft, scale: float = 1.0) -> Draft:
    """`micro` and the update as one graph that ends by writing all new values over the old ones.

    Gradients are multiplied with `scale` on the way: the weight of one micro-batch, where `micro` returns sums.
    """
    gradients = _take_gradients(micro, scale)
    returned = list(zip(micro.results, micro.outputs, strict=True))
    written = {(entry.kind, entry.name): node for node, entry in returned if entry.kind in _WRITTEN}
    _append_update(program, options, micro, gradients, written)
    kept = [pair for pair in returned if pair[1].kind in _RETURNED]
    micro.replace_results([node for node, _ in kept], [entry for _, entry in kept])
    return _finish(micro)


def draft_accumulation(micro: Draft, scale: float) -> Draft:
    """`micro` with its gradients added to accumulators: placeholders of kind GRADIENT."""
    gradients = _take_gradients(micro, scale)
    for name, node in gradients.items():
        value = node.meta["val"]
        entry = GraphInput("", InputKind.GRADIENT, name, tuple(value.shape), value.dtype)
        accumulator = _add_input(micro, entry, f"accumulated_{name.replace('.', '_')}")
        with micro.graph.inserting_before(micro.output_node):
            total = micro.graph.call_function(aten.add.Tensor, (accumulator, node))
            set_value(total, node.meta)
            micro.graph.call_function(aten.copy_.default, (accumulator, total)).meta = dict(node.meta)
    pairs = zip(micro.results, micro.outputs, strict=True)
    kept = [pair for pair in pairs if pair[1].kind is not OutputKind.GRADIENT]
    micro.replace_results([node for node, _ in kept], [entry for _, entry in kept])
    return _finish(micro)


def draft_update(program: Program, options: RunOptions) -> Draft:
    """The update by itself: reads accumulators, writes weights and state, returns nothing."""
    assert program.update is not None
    graph = fx.Graph()
    graph.output(())
    draft = Draft(graph, (), ())
    gradients = {
        entry.name: _add_input(draft, entry, f"gradient_{entry.name.replace('.', '_')}")
        for entry in program.update.inputs_of(InputKind.GRADIENT)
    }
    _append_update(program, options, draft, gradients, {})
    return _finish(draft)


def _finish(draft: Draft) -> Draft:
    _merge_scalar_states(draft)
    share_equal_values(draft)
    remove_dead_code(draft)
    draft.graph.lint()
    return draft


def _take_gradients(micro: Draft, scale: float) -> dict[str, fx.Node]:
    scale_gradients(micro, scale)
    pairs = zip(micro.results, micro.outputs, strict=True)
    return {entry.name: node for node, entry in pairs if entry.kind is OutputKind.GRADIENT}


def _append_update(
    program: Program,
    options: RunOptions,
    draft: Draft,
    gradients: dict[str, fx.Node],
    written: dict[tuple[OutputKind, str], fx.Node],
) -> None:
    """Put the update behind a draft. What forward has `written` is stored too, unless the update writes it anew."""
    assert program.update is not None
    update = draft_graph(program.update, program.constants)
    separate_scalars(update)
    simplify(update)
    apply_number_options(update, options, update=True)
    by_name = {node.name: node for node in draft.graph.find_nodes(op="placeholder")}
    placeholders = {(entry.kind.value, entry.name): by_name[entry.node] for entry in draft.inputs}
    entries = {entry.node: entry for entry in update.inputs}
    copies: dict[fx.Node, fx.Node] = {}
    for node in update.graph.find_nodes(op="placeholder"):
        entry = entries.get(node.name)
        if entry is None or entry.kind is InputKind.CONSTANT:
            copies[node] = draft.add_placeholder(f"update_{node.name}", update.bound[node.name])
            copies[node].meta = dict(node.meta)
        elif entry.kind is InputKind.GRADIENT:
            copies[node] = gradients[entry.name]
        else:
            key = (entry.kind.value, entry.name)
            if key not in placeholders:
                placeholders[key] = _add_input(draft, entry, f"update_{node.name}")
            # Forward may have written to a parameter.
            copies[node] = written.get((OutputKind.PARAMETER, entry.name), placeholders[key])
            if entry.kind is not InputKind.PARAMETER:
                copies[node] = placeholders[key]
    with draft.graph.inserting_before(draft.output_node):
        for node in update.graph.nodes:
            if node.op == "call_function":
                copies[node] = draft.graph.node_copy(node, copies.__getitem__)
        values = {
            (entry.kind, entry.name): copies[node] for node, entry in zip(update.results, update.outputs, strict=True)
        }
        for (kind, name), value in {**written, **values}.items():
            held = InputKind.PARAMETER if kind in WRITES_PARAMETER else kind
            target = placeholders[held.value, name]
            if value is not target:
                draft.graph.call_function(aten.copy_.default, (target, value)).meta = dict(target.meta)


def _add_input(draft: Draft, entry: GraphInput, name: str) -> fx.Node:
    first = next(iter(draft.graph.nodes))
    with draft.graph.inserting_before(first):
        node = draft.graph.placeholder(name)
    node.meta = {"val": torch.empty(entry.shape, dtype=entry.dtype, device="meta")}
    draft.inputs = (*draft.inputs, replace(entry, node=node.name))
    return node


def _merge_scalar_states(draft: Draft) -> None:
    """Let parameters share 0-dim state, such as step counts, that starts equal and changes by the same rule.

    `CompiledGraph.bind` checks that they are equal.
    """
    by_name = {node.name: node for node in draft.graph.find_nodes(op="placeholder")}
    writes = {
        node.args[0]: (node, node.args[1])
        for node in draft.graph.find_nodes(op="call_function", target=aten.copy_.default)
    }
    kept: dict[Hashable, GraphInput] = {}
    inputs: list[GraphInput] = []
    for entry in draft.inputs:
        own = by_name[entry.node]
        if entry.kind is not InputKind.STATE or entry.shape or own not in writes:
            inputs.append(entry)
            continue
        write, value = writes[own]
        role = entry.name.partition(":")[0]
        first = kept.setdefault((role, entry.dtype, _describe(value, own)), entry)
        if first is entry:
            inputs.append(entry)
            continue
        draft.graph.erase_node(write)
        own.replace_all_uses_with(by_name[first.node])
        draft.graph.erase_node(own)
        draft.shared_states[entry.name] = first.name
    draft.inputs = tuple(inputs)


def _describe(value: Any, own: fx.Node) -> Hashable:
    """An expression with the parameter's own state written as such: equal for parameters with the same rule."""
    if value is own:
        return "own"
    if not isinstance(value, fx.Node) or value.op == "placeholder":
        return (type(value).__name__, value) if not isinstance(value, list | tuple | dict) else str(value)
    arguments = tuple(_describe(argument, own) for argument in value.args)
    return (value.target, arguments, tuple((key, str(item)) for key, item in value.kwargs.items()))
