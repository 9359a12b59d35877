"""The loss of Wav2Vec2's pre-training, with static shapes.

In: predictions and quantized features of each frame, the numbers of negatives, which frames are masked. Out: the loss
and its two parts: to tell the right feature from the negatives, and to use all code vectors.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

import poptorch

_IGNORED_LABEL = -100


def select_frames(values: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
    """`values` [batch, length, size] at `frames` [batch, count] -> [batch, count, size]."""
    return values.gather(1, frames.long().unsqueeze(-1).expand(-1, -1, values.shape[-1]))


def compute_contrastive_loss(
    model: Any,
    predictions: torch.Tensor,
    targets: torch.Tensor,
    negatives: torch.Tensor,
    mask: torch.Tensor,
    perplexity: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """`predictions` and `targets` [batch, frames, size], `negatives` [batch, frames, count], `mask` [batch, frames].

    Negatives that count through a batch are taken apart again: which example of a batch is which changes when a batch
    is cut into micro-batches.
    """
    config = model.config
    batch, frames, _ = targets.shape
    own = (negatives.long() % frames).view(batch, -1)
    distractors = select_frames(targets, own).view(batch, frames, -1, targets.shape[-1]).permute(2, 0, 1, 3)
    logits = model.compute_contrastive_logits(
        targets.unsqueeze(0), distractors, predictions, config.contrastive_logits_temperature
    )
    # A negative that is the target itself, as long as few code vectors are in use, must not count against it.
    is_target = (targets == distractors).all(-1)
    logits = logits.masked_fill(functional.pad(is_target, (0, 0, 0, 0, 1, 0)), -torch.inf)
    labels = torch.where(mask, 0, _IGNORED_LABEL)
    contrastive_loss = functional.cross_entropy(
        logits.permute(1, 2, 0).flatten(0, 1).float(), labels.flatten(), reduction="sum"
    )
    vectors = config.num_codevectors_per_group * config.num_codevector_groups
    diversity_loss = (vectors - perplexity) / vectors * mask.sum()
    loss = contrastive_loss + config.diversity_loss_weight * diversity_loss
    return {
        "loss": poptorch.identity_loss(loss, reduction="none"),
        "contrastive_loss": contrastive_loss,
        "diversity_loss": diversity_loss,
    }
