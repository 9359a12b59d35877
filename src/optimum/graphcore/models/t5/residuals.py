"""T5 in half precision: what is added up from layer to layer stays in float32.

In: a T5 encoder or decoder in half. Out: the same stack, whose sums cannot overflow. It begins with words in float32,
and a sum of float32 and half is float32; the layer norm at the start of each layer goes back to half, so that products
stay in half. In float32 nothing changes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from optimum.graphcore.modeling_utils import PipelineMixin

_SCALE = 8.0  # a power of two: exact, and enough for the largest published checkpoints


class _WidenOutput:
    """A hook: half becomes float32, and is scaled up again."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, module: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        return output.float() * self.scale if output.dtype == torch.float16 else output


class _ScaleInput:
    """A hook: values of half become smaller, so that a product of them fits."""

    def __call__(self, module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (inputs[0] / _SCALE,) if inputs[0].dtype == torch.float16 else inputs


def keep_residuals_in_float32(model: PipelineMixin, path: str) -> None:
    """Put hooks on a stack; `deparallelize` takes them away."""
    assert isinstance(model, nn.Module)
    stack: Any = model.get_submodule(path)
    model._hooks.append(stack.embed_tokens.register_forward_hook(_WidenOutput(1.0)))
    for block in stack.block:
        feed_forward = block.layer[-1]  # its results are the large ones; dropout is its last step before the sum
        model._hooks.append(feed_forward.DenseReluDense.wo.register_forward_pre_hook(_ScaleInput()))
        model._hooks.append(feed_forward.dropout.register_forward_hook(_WidenOutput(_SCALE)))
