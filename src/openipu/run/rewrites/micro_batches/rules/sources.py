"""Values that depend on no number of the micro-batch: constants of its shape, and random bits of its seed.

In: an old node. Out: a constant, which stays unbatched, or the bits of every seed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from openipu.run.drafts.random_numbers import RANDOM_BITS
from openipu.run.rewrites.micro_batches.arguments import read_arguments
from openipu.run.rewrites.micro_batches.writer import BatchWriter, Value, read_shape

aten = torch.ops.aten

# The number that a new tensor holds, or the argument that says it.
_CONSTANTS: dict[Any, float | str] = {
    aten.ones_like.default: 1,
    aten.zeros_like.default: 0,
    aten.full_like.default: "fill_value",
    aten.new_zeros.default: 0,
    aten.new_ones.default: 1,
    aten.new_full.default: "fill_value",
    aten.fill.Scalar: "value",
    aten.empty_like.default: 0,
    aten.new_empty.default: 0,
}


def is_constant(node: fx.Node) -> bool:
    """Whether the value depends on the shapes of the operands alone."""
    return node.target in _CONSTANTS


def write_constant(writer: BatchWriter, node: fx.Node) -> fx.Node:
    """The constant, made without looking at an operand."""
    number = _CONSTANTS[node.target]
    if isinstance(number, str):
        number = read_arguments(node)[number]
    assert not isinstance(number, str)
    return writer.fill(read_shape(node), number, node.meta["val"].dtype)


def _batch_random_bits(writer: BatchWriter, node: fx.Node) -> Value:
    return writer.repeat(node)  # a vector of seeds gives one dimension more


SOURCES: dict[Any, Any] = dict.fromkeys(RANDOM_BITS, _batch_random_bits)
