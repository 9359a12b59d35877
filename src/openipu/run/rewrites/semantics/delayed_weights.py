"""Weights as a pipeline's forward stages find them while updates are under way.

In: a draft of one micro-batch of a pipeline that updates after each micro-batch. Out: the same draft, with a
placeholder of kind DELAYED for each weight that a stage reads in forward before the updates of the micro-batches ahead
of it. Of S stages, stage s has seen 2 (S - 1 - s) updates less than the last one; `GraphInput.index` is that number.
Backward reads the weights of its own time, but the activations of its forward.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import fx

from openipu.graph import NOTE, GraphInput, InputKind, Phase, note_of
from openipu.run.drafts.aliasing import find_viewed
from openipu.run.drafts.draft import Draft


def delay_weights(draft: Draft) -> None:
    """Give forward nodes of all stages but the last one placeholders of their own for the weights that they read."""
    graph = draft.graph
    by_name = {node.name: node for node in graph.find_nodes(op="placeholder")}
    weights = {by_name[entry.node]: entry for entry in draft.inputs if entry.kind is InputKind.PARAMETER}
    last = max((note_of(node).stage for node in graph.nodes if node.op == "call_function"), default=0)
    views = _list_views(graph, weights)
    _read_anew(graph, views)
    delayed: dict[tuple[fx.Node, int], fx.Node] = {}
    inputs: list[GraphInput] = []
    for node in list(graph.nodes):
        delay = 2 * (last - note_of(node).stage)
        if node.op != "call_function" or note_of(node).phase is not Phase.FORWARD or not delay:
            continue
        for weight in [source for source in node.all_input_nodes if source in weights]:
            if (weight, delay) not in delayed:
                delayed[weight, delay] = _add_placeholder(draft, weight, weights[weight], delay, inputs)
            node.replace_input_with(weight, delayed[weight, delay])
    draft.inputs = (*reversed(inputs), *draft.inputs)  # in the order of the placeholders


def _list_views(graph: fx.Graph, weights: dict[fx.Node, GraphInput]) -> set[fx.Node]:
    """Forward nodes that are weights, seen in another way."""
    views: set[fx.Node] = set()
    for node in graph.nodes:
        viewed = find_viewed(node)
        if viewed is not None and node.all_input_nodes == [viewed] and (viewed in weights or viewed in views):
            views.add(node)
    return {node for node in views if note_of(node).phase is Phase.FORWARD}


def _read_anew(graph: fx.Graph, views: set[fx.Node]) -> None:
    """Let backward look at the weights itself, where it would take what forward saw."""
    copies: dict[fx.Node, fx.Node] = {}

    def copy(node: fx.Node) -> fx.Node:
        if node not in views:
            return node
        if node not in copies:
            source = node.all_input_nodes[0]
            new = copy(source)
            with graph.inserting_after(node):
                copies[node] = graph.node_copy(node, lambda old: new if old is source else old)
        return copies[node]

    for node in list(graph.nodes):
        if node.op == "call_function" and note_of(node).phase is not Phase.FORWARD:
            for source in [source for source in node.all_input_nodes if source in views]:
                node.replace_input_with(source, copy(source))
    for node in copies.values():
        node.meta[NOTE] = replace(note_of(node), phase=Phase.BACKWARD)


def _add_placeholder(draft: Draft, weight: fx.Node, entry: GraphInput, delay: int, inputs: list[GraphInput]) -> fx.Node:
    first = next(iter(draft.graph.nodes))
    with draft.graph.inserting_before(first):
        node = draft.graph.placeholder(f"{weight.name}_{delay}_ago")
    node.meta = {"val": torch.empty(entry.shape, dtype=entry.dtype, device="meta")}
    inputs.append(GraphInput(node.name, InputKind.DELAYED, entry.name, entry.shape, entry.dtype, delay))
    return node
