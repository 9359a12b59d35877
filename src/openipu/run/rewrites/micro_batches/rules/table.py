"""Which rule batches which operator.

In: a node. Out: a function that writes its batched form, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from openipu.run.rewrites.micro_batches.rules.indexing import INDEXING
from openipu.run.rewrites.micro_batches.rules.layers import LAYERS
from openipu.run.rewrites.micro_batches.rules.losses import LOSSES
from openipu.run.rewrites.micro_batches.rules.merging import MERGES, batch_merged
from openipu.run.rewrites.micro_batches.rules.pointwise import batch_pointwise, is_pointwise
from openipu.run.rewrites.micro_batches.rules.products import PRODUCTS
from openipu.run.rewrites.micro_batches.rules.recurrent import RECURRENT
from openipu.run.rewrites.micro_batches.rules.reductions import REDUCTIONS
from openipu.run.rewrites.micro_batches.rules.shifting import SHIFTS, batch_shifted
from openipu.run.rewrites.micro_batches.rules.sources import SOURCES
from openipu.run.rewrites.micro_batches.rules.views import VIEWS
from openipu.run.rewrites.micro_batches.writer import BatchWriter, Value

aten = torch.ops.aten

# A rule gives None where it cannot write this very node: then the operator is written once for each micro-batch.
Rule = Callable[[BatchWriter, fx.Node], Value | None]

RULES: dict[Any, Rule] = {
    **dict.fromkeys(SHIFTS, batch_shifted),
    **dict.fromkeys(MERGES, batch_merged),
    **VIEWS,
    **REDUCTIONS,
    **PRODUCTS,
    **LAYERS,
    **INDEXING,
    **LOSSES,
    **RECURRENT,
    **SOURCES,
}

# They look at strides and places in memory, which batching changes.
FORBIDDEN = frozenset(
    {
        aten.as_strided.default,
        aten.as_strided_copy.default,
        aten.as_strided_scatter.default,
        aten.set_.default,
        aten.resize.default,
    }
)


def find_rule(node: fx.Node) -> Rule | None:
    """The rule of a node's operator."""
    rule = RULES.get(node.target)
    if rule is None and is_pointwise(node.target):
        return batch_pointwise
    return rule
