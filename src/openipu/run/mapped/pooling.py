"""The gradient of a max pool as an IPU has it: every maximum of a window gets it, not the first one alone.

In: gradients of the output, the input, the pooled values. Out: the gradient of the input. Arguments are those of
PyTorch's operator, which has the same price, with the pooled values in place of indices.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as functional


def max_pool_gradient(
    grad: torch.Tensor,
    given: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    pooled: torch.Tensor,
    scaled: bool,
) -> torch.Tensor:
    """With `scaled`, the maxima of a window share its gradient; else each of them gets all of it."""
    batch, channels, height, width = given.shape
    down, right = padding
    padded = functional.pad(given.float(), [right, right, down, down], value=-torch.inf)
    windows = functional.unfold(padded, tuple(kernel), stride=tuple(stride)).reshape(
        batch, channels, -1, *pooled.shape[2:]
    )
    hits = (windows == pooled.float().unsqueeze(2)).float()
    shares = hits * grad.float().unsqueeze(2)
    if scaled:
        shares = shares / hits.sum(2, keepdim=True)
    flat = shares.reshape(batch, -1, pooled.shape[2] * pooled.shape[3])
    whole = functional.fold(flat, tuple(padded.shape[2:]), tuple(kernel), stride=tuple(stride))
    return whole[:, :, down : down + height, right : right + width].to(given.dtype)
