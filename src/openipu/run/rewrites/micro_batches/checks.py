"""What must not be batched.

In: a draft. Out: the reason why its micro-batches depend on one another, or on the order in which they run.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch
from torch import fx

from openipu.graph import GraphCall, OutputKind, note_of
from openipu.run.drafts.aliasing import draws_random_numbers, is_pure
from openipu.run.drafts.draft import Draft
from openipu.run.rewrites.micro_batches.arguments import read_arguments
from openipu.run.rewrites.micro_batches.rules.table import FORBIDDEN

_WRITTEN = {
    OutputKind.BUFFER: "buffer",
    OutputKind.PARAMETER: "parameter",
    OutputKind.CARRIED: "parameter",
    OutputKind.INPUT: "input",
}
_ATTENTION = frozenset(
    {
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
    }
)
_WHOLE_FORMATS = (torch.float32, torch.float64)


@dataclass(frozen=True)
class NotBatchable:
    """Why micro-batches have to run one after the other."""

    reason: str
    node: str = ""  # the name of the node, where there is one

    def __str__(self) -> str:
        return self.reason


def check_draft(draft: Draft) -> NotBatchable | None:
    """The first reason against batching that the draft shows."""
    for entry in draft.outputs:
        if entry.kind in _WRITTEN:
            return NotBatchable(
                f"forward writes {_WRITTEN[entry.kind]} {entry.name}: each micro-batch reads what the last one wrote"
            )
        if entry.kind is OutputKind.TAP:
            return NotBatchable(f"tensor {entry.name} is tapped: taps read the values of single micro-batches")
        if entry.kind is OutputKind.GRADIENT and entry.dtype not in _WHOLE_FORMATS:
            return NotBatchable(
                f"the gradient of {entry.name} is {_show(entry.dtype)}: it is rounded before it is accumulated"
            )
    for node in draft.graph.nodes:
        if node.op not in ("placeholder", "output"):
            reason = _check_node(node)
            if reason:
                return refuse(node, reason)
    return None


def refuse(node: fx.Node, reason: str) -> NotBatchable:
    """A reason with the user's line behind it."""
    line = note_of(node).line
    return NotBatchable(f"{show_target(node)} {reason}" + (f" (at {line})" if line else ""), node.name)


def show_target(node: fx.Node) -> str:
    """The name of an operator for a message."""
    return str(getattr(node.target, "overloadpacket", node.target)).removeprefix("aten.")


def _check_node(node: fx.Node) -> str:
    if node.target is operator.getitem:
        return ""
    if isinstance(node.target, GraphCall) or not isinstance(node.target, torch._ops.OpOverload):
        return "is a loop, a branch or a function of the host"
    if node.target in _ATTENTION and not read_arguments(node)["dropout_p"]:
        return ""  # tagged as random, but draws nothing
    if draws_random_numbers(node):
        return "draws from a random stream, whose numbers depend on the order of the draws"
    if not is_pure(node):
        return "writes to its operands"
    if node.target in FORBIDDEN:
        return "reads memory by its layout"
    return ""


def _show(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
