"""Custom ops that came with PopTorch itself, or that many public programs carry along as the same C++ code.

In: the operands and attributes of a call of `custom_op`. Out: the same as ops of PyTorch, with gradients, cost rules
and all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from poptorch.errors import createPoptorchError

ShippedOp = Callable[[Sequence[torch.Tensor], Mapping[str, Any]], list[torch.Tensor]]


def gather_last_dimension(inputs: Sequence[torch.Tensor], attributes: Mapping[str, Any]) -> list[torch.Tensor]:
    """`FastGatherLastDim`: out[..., i] = data[..., index[..., i]]. DeBERTa of Optimum is built on it."""
    data, index = inputs
    if data.shape[:-1] != index.shape[:-1] or data.dim() != index.dim():
        raise createPoptorchError(
            f"FastGatherLastDim gathers along the last dimension only: data {tuple(data.shape)} and index "
            f"{tuple(index.shape)} must have the same sizes before it. Use torch.gather, or expand the index."
        )
    return [torch.gather(data, -1, index.long())]


class _Moved(torch.autograd.Function):
    """The same values, spread anew over the tiles; so is the gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, moves: int, backward_moves: int) -> torch.Tensor:
        ctx.backward_moves = backward_moves
        return _move(tensor, moves)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _move(gradients[0], ctx.backward_moves), None, None


def _move(tensor: torch.Tensor, moves: int) -> torch.Tensor:
    """A copy where the tensor lies, if there are no moves; else each one brings all of it to other tiles."""
    if not moves:
        return tensor.clone()
    for _ in range(moves):
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    return tensor


def spread_evenly(inputs: Sequence[torch.Tensor], attributes: Mapping[str, Any]) -> list[torch.Tensor]:
    """`RemapCE`: an identity that lays a tensor out evenly, `grain_size` elements to a piece. Transformers call it
    before ops that would find their operand on a few tiles.

    Newer ones give the sizes as `fwd_grain_size` and `bwd_grain_size`; `…_clone_layout` copies on the spot, and
    `…_after_matmul` regroups what a product left before it is spread.
    """
    if len(inputs) != 1:
        raise createPoptorchError(f"RemapCE takes one tensor, not {len(inputs)}.")
    for name in ("grain_size", "fwd_grain_size", "bwd_grain_size"):
        if name in attributes and int(attributes[name]) < 1:
            raise createPoptorchError(f"RemapCE needs a {name} of at least 1, not {attributes[name]}.")
    moves, backward_moves = (
        0 if attributes.get(f"{way}_clone_layout") else 1 + bool(attributes.get(f"{way}_after_matmul"))
        for way in ("fwd", "bwd")
    )
    return [_Moved.apply(inputs[0], moves, backward_moves)]  # type: ignore[no-untyped-call]


SHIPPED: dict[tuple[str, str, int], ShippedOp] = {
    ("FastGatherLastDim", "poptorch.custom_ops", 1): gather_last_dimension,
    ("RemapCE", "ai.graphcore", 1): spread_evenly,
}
