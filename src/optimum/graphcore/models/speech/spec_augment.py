"""SpecAugment with a static graph: spans of time and of features are masked at random, anew for every micro-batch.

In: hidden states [batch, frames, size] of a speech model that trains. Out: the same, masked. Transformers draws the
spans with NumPy while `forward` runs, which in a static graph would be once and for all.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from optimum.graphcore.modeling.extension import Extension


class StaticSpecAugment(Extension):
    """Put before a speech model of Transformers, this class draws the masks."""

    config: Any
    training: bool
    masked_spec_embed: nn.Parameter

    def _mask_hidden_states(
        self,
        hidden_states: torch.Tensor,
        mask_time_indices: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        config = self.config
        if not getattr(config, "apply_spec_augment", True):
            return hidden_states
        batch, frames, size = hidden_states.shape
        if mask_time_indices is None and config.mask_time_prob > 0 and self.training:
            lengths = None if attention_mask is None else attention_mask.sum(-1)
            mask_time_indices = draw_spans(
                torch.rand(batch, frames, device=hidden_states.device),
                torch.rand([], device=hidden_states.device),
                config.mask_time_prob,
                config.mask_time_length,
                config.mask_time_min_masks,
                lengths,
            )
        if mask_time_indices is not None:
            embedding = self.masked_spec_embed.to(hidden_states.dtype)
            hidden_states = torch.where(mask_time_indices.bool().unsqueeze(-1), embedding, hidden_states)
        if config.mask_feature_prob > 0 and self.training:
            mask_feature_indices = draw_spans(
                torch.rand(batch, size, device=hidden_states.device),
                torch.rand([], device=hidden_states.device),
                config.mask_feature_prob,
                config.mask_feature_length,
                config.mask_feature_min_masks,
            )
            hidden_states = hidden_states.masked_fill(mask_feature_indices.unsqueeze(1), 0)
        return hidden_states


def draw_spans(
    scores: torch.Tensor,
    remainder: torch.Tensor,
    probability: float,
    span: int,
    min_masks: int,
    lengths: torch.Tensor | None = None,
) -> torch.Tensor:
    """A mask [batch, length] of spans, of which about `probability` of all places are the start, times `span`.

    `scores` [batch, length] and `remainder` [] are random numbers from 0 to 1. The places with the highest scores start
    a span. How many do is probability x length / span, rounded up or down by `remainder`, and at least `min_masks`; no
    span goes beyond `lengths`, and no two spans of a row start at the same place.
    """
    batch, length = scores.shape
    if not 1 <= span <= length:
        raise ValueError(
            f"A mask of SpecAugment is {span} long, but there are {length} places. Choose a mask_time_length and a "
            "mask_feature_length from 1 to the number of frames and of features."
        )
    most = min(max(int(probability * length / span + 1), min_masks), length // span)
    if most == 0:
        return torch.zeros_like(scores, dtype=torch.bool)
    if lengths is None:
        lengths = torch.full((batch,), length, device=scores.device)
    starts_allowed = lengths - (span - 1)
    wished = (probability * lengths / span + remainder).to(torch.long).clamp(min_masks, most)
    count = torch.minimum(wished, starts_allowed.clamp(min=0))
    places = torch.arange(length, device=scores.device)
    scores = scores.masked_fill(places >= starts_allowed.unsqueeze(-1), -1.0)
    starts = torch.topk(scores, most, dim=-1).indices
    is_used = torch.arange(most, device=scores.device) < count.unsqueeze(-1)
    distance = places - starts.unsqueeze(-1)  # [batch, spans, length]
    return ((distance >= 0) & (distance < span) & is_used.unsqueeze(-1)).any(1)
