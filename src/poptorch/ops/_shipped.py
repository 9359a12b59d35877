"""Custom ops that came with PopTorch itself, so that programs call them without having written them.

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


SHIPPED: dict[tuple[str, str, int], ShippedOp] = {
    ("FastGatherLastDim", "poptorch.custom_ops", 1): gather_last_dimension,
}
