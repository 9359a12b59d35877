"""Layers whose weights have another float format than what flows through them.

In: a call of a layer function. Out: the same call with its weights in the format of the activations: that is the format
an IPU computes the layer in, and the format of its result. Gradients of the weights come back in the weights' own
format, so float32 weights can be trained through half-precision activations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

_NAMES = ("weight", "bias")
_WEIGHT_POSITIONS: dict[Callable[..., Any], int] = {  # the bias stands behind the weight
    **dict.fromkeys((F.linear, F.conv1d, F.conv2d, F.conv3d), 1),
    **dict.fromkeys((F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d), 1),
    F.bilinear: 2,
    F.prelu: 1,
    F.layer_norm: 2,
    F.group_norm: 2,
    F.batch_norm: 3,
    F.instance_norm: 3,
}
# Norms of half-precision activations take float32 weights as they are, and use all of their precision.
_NORMS = frozenset({F.layer_norm, F.group_norm, F.batch_norm, F.instance_norm})


def align_weights(func: Any, args: list[Any], keywords: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments with all weights in the dtype of the activations."""
    first = _WEIGHT_POSITIONS.get(func)
    if first is None:
        return args, keywords
    activations = args[0] if args else keywords.get("input")
    if not isinstance(activations, torch.Tensor) or not activations.is_floating_point() or not activations.is_meta:
        return args, keywords
    dtype = activations.dtype
    if func in _NORMS and dtype is not torch.float32:
        return args, keywords
    aligned = [
        _align(value, dtype) if first <= position < first + len(_NAMES) else value
        for position, value in enumerate(args)
    ]
    return aligned, {name: _align(value, dtype) if name in _NAMES else value for name, value in keywords.items()}


def _align(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.is_meta and value.dtype != dtype:
        return value.to(dtype)
    return value
