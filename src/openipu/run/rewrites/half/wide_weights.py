"""Half-precision weights of inference, converted once instead of in every call.

In: a draft that computes products of half-precision weights in float32. Out: the same draft, which reads a float32 copy
of those weights from device memory. Nothing changes weights between two calls of an inference program but loading new
ones, and then the device memory makes the copies anew. A converted weight costs as much memory traffic as the product
of a small batch.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from openipu.graph import WRITES_PARAMETER, InputKind, Program
from openipu.run.drafts.draft import Draft

aten = torch.ops.aten


def read_wide_weights(draft: Draft, program: Program) -> None:
    """Let placeholders of float32 copies stand for conversions of half-precision weights."""
    if program.training:
        return  # an update writes weights in every step
    written = {entry.name for entry in draft.outputs if entry.kind in WRITES_PARAMETER}
    placeholders = {node.name: node for node in draft.graph.find_nodes(op="placeholder")}
    for entry in draft.inputs:
        if entry.kind is not InputKind.PARAMETER or entry.dtype is not torch.float16 or entry.name in written:
            continue
        held = placeholders[entry.node]
        conversions = [
            user
            for user in held.users
            if user.target is aten._to_copy.default and dict(user.kwargs) == {"dtype": torch.float32}
        ]
        if not conversions:
            continue
        with draft.graph.inserting_after(held):
            wide = draft.graph.placeholder(f"{held.name}_wide")
        wide.meta = dict(conversions[0].meta)
        for conversion in conversions:
            conversion.replace_all_uses_with(wide)
            draft.graph.erase_node(conversion)
        added = replace(entry, node=wide.name, dtype=torch.float32)
        if held.users:
            draft.inputs = (*draft.inputs, added)
        else:
            draft.graph.erase_node(held)
            draft.inputs = tuple(added if other is entry else other for other in draft.inputs)
