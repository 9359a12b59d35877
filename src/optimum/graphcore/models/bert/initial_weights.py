"""First weights without outliers, which half precision does not like."""

from __future__ import annotations

import torch
from torch import nn
from transformers import initialization as init


@torch.no_grad()
def truncate_weights(model: nn.Module, spread: float) -> None:
    """Draw the weights of linear layers and embeddings again, within two standard deviations.

    Weights that came from a checkpoint stay: the functions of `transformers.initialization` know them. A weight that
    two modules share is drawn once, for the first of them.
    """
    drawn: set[int] = set()
    for module in model.modules():
        if not isinstance(module, nn.Linear | nn.Embedding) or id(module.weight) in drawn:
            continue
        drawn.add(id(module.weight))
        init.trunc_normal_(module.weight, mean=0.0, std=spread, a=-2 * spread, b=2 * spread)
        padding = module.padding_idx if isinstance(module, nn.Embedding) else None
        if padding is not None and not getattr(module.weight, "_is_hf_initialized", False):
            init.zeros_(module.weight[padding])
