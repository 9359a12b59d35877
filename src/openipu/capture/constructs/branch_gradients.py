"""What flows back through a branch of the device.

In: the two bodies of a branch and what they read. Out: for each side a body that computes the forward once more and
differentiates it; for what only the other side reads it returns zeros, so that both sides return the same tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from openipu.capture.record.torch_private import run_backward

Gradient = torch.Tensor | None


@dataclass(frozen=True, eq=False)
class BranchSide:
    """One body, what it is called with, and all that it reads: that, and tensors of the graph around it."""

    body: Callable[..., Any]
    inputs: Sequence[torch.Tensor]
    reads: Sequence[torch.Tensor]


def is_differentiable(tensor: torch.Tensor) -> bool:
    """Does somebody wait for its gradient?"""
    return tensor.requires_grad


def make_backward(sides: Sequence[BranchSide], place: int) -> Callable[..., list[torch.Tensor]]:
    """The backward of one side: gradients of the results in, gradients of all that both sides read out."""

    def run(*gradients: torch.Tensor) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        for number, side in enumerate(sides):
            wanted = [tensor for tensor in side.reads if is_differentiable(tensor)]
            made = _differentiate(side, wanted, gradients) if number == place else [None] * len(wanted)
            found.extend(
                torch.zeros_like(tensor) if gradient is None else gradient
                for tensor, gradient in zip(wanted, made, strict=True)
            )
        return [gradient.detach() for gradient in found]

    return run


def _differentiate(
    side: BranchSide, wanted: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]
) -> Sequence[Gradient]:
    with torch.enable_grad():
        returned = side.body(*side.inputs)
    results = list(returned) if isinstance(returned, list | tuple) else [returned]
    pairs = [(result, seed) for result, seed in zip(results, gradients, strict=True) if result.requires_grad]
    if not pairs or not wanted:
        return [None] * len(wanted)
    with torch.no_grad():
        return run_backward([result for result, _ in pairs], [seed for _, seed in pairs], wanted)
