"""Random numbers beside half precision, for the compiled tier.

In: a draft that is to be compiled, with half-precision values. Out: the same draft, in which random bits, or what a
comparison makes of them, are stored before they are read. Inductor of PyTorch 2.13, told to round to half behind every
operator, computes other bits where it fuses the draw with operators that pad, scatter or read in another order: two
elements of a hundred were dropped that should have been kept, or the reverse. `as_strided` with a value's own shape
and strides changes nothing; Inductor stores what it is taken of.
"""

from __future__ import annotations

import torch
from torch import fx

from openipu.run.drafts.draft import Draft
from openipu.run.passes.seeded_random import DRAWS

aten = torch.ops.aten

_COMPARISONS = frozenset({aten.lt.Scalar, aten.ge.Scalar})


def store_draws(draft: Draft) -> None:
    """Let half-precision operators read draws from memory: one byte for each element where they are compared."""
    if not any(getattr(node.meta.get("val"), "dtype", None) is torch.float16 for node in draft.graph.nodes):
        return
    for bits in [node for node in draft.graph.nodes if node.target in DRAWS]:
        compared = [user for user in bits.users if user.target in _COMPARISONS]
        for node in compared:
            _store(draft.graph, node, list(node.users))
        others = [user for user in bits.users if user not in compared]
        if others:
            _store(draft.graph, bits, others)


def _store(graph: fx.Graph, node: fx.Node, readers: list[fx.Node]) -> None:
    shape = tuple(node.meta["val"].shape)
    with graph.inserting_after(node):
        stored = graph.call_function(
            aten.as_strided.default, (node, list(shape), list(torch.empty(shape, device="meta").stride()))
        )
    stored.meta = dict(node.meta)
    for reader in readers:
        reader.replace_input_with(node, stored)
