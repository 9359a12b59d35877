"""Gradients and updates inside the graph that computes the gradients.

In: a draft that returns gradients. Out: the same draft, which weighs them, or applies them where they are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from openipu.graph import InputKind, OutputKind
from openipu.run.drafts.aliasing import find_owner
from openipu.run.drafts.draft import Draft
from openipu.run.rewrites.in_place.accumulation import take_gradients
from openipu.run.update.buckets import Bucket

aten = torch.ops.aten


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
