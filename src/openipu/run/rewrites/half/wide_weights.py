"""Half-precision weights of inference, converted once instead of in every call.

In: a draft that computes products of half-precision weights in float32. Out: the same draft, which reads a float32 copy
of those weights from device memory. Nothing changes weights between two calls of an inference program but loading new
ones, and then the device memory makes the copies anew. A converted weight costs as much memory traffic as the product
of a small batch.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import fx

from openipu.graph import WRITES_PARAMETER, GraphInput, InputKind, Program
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import Match, Rule, Search, Writer, matched
from openipu.run.rewrites.half.conversions import converts_to


def make_rules(draft: Draft, program: Program) -> tuple[Rule, ...]:
    """Let placeholders of float32 copies stand for conversions of half-precision weights."""
    if program.training:
        return ()  # an update writes weights in every step
    written = {entry.name for entry in draft.outputs if entry.kind in WRITES_PARAMETER}
    weights = {
        entry.node: entry
        for entry in draft.inputs
        if entry.kind is InputKind.PARAMETER and entry.dtype is torch.float16 and entry.name not in written
    }

    def find(node: fx.Node) -> Match | None:
        weight = weights.get(node.name) if node.op == "placeholder" else None
        conversions = [user for user in node.users if converts_to(user, torch.float32)]
        return matched(node, *conversions, weight=weight, conversions=conversions) if weight and conversions else None

    def read_copy(match: Match, writer: Writer) -> None:
        conversions: list[fx.Node] = match["conversions"]
        with writer.before(match.root.next):
            wide = draft.graph.placeholder(f"{match.root.name}_wide")
        wide.meta = dict(conversions[0].meta)
        weight: GraphInput = match["weight"]
        copy = replace(weight, node=wide.name, dtype=torch.float32)
        if set(match.root.users) == set(conversions):
            draft.inputs = tuple(copy if entry is weight else entry for entry in draft.inputs)
        else:
            draft.inputs = (*draft.inputs, copy)
        for conversion in conversions:
            writer.replace(conversion, wide)

    return (Rule("half weight", Search(None, find), read_copy, shared=frozenset({"conversions"})),)
