"""Attention as an IPU likes it: one large product in place of three small ones.

In: hidden states and the projections of queries, keys and values. Out: the same projections, or the whole of a
self-attention that works like BERT's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.bert.modeling_bert import eager_attention_forward


def project_together(hidden_states: torch.Tensor, projections: Sequence[nn.Linear]) -> list[torch.Tensor]:
    """Several linear layers on the same input, as one product with their weights side by side."""
    weights: list[torch.Tensor] = [layer.weight for layer in projections]
    weight = torch.cat(weights)
    biases = [layer.bias for layer in projections]
    given = [bias for bias in biases if bias is not None]
    assert len(given) in (0, len(biases)), "either all projections have a bias, or none"
    together = nn.functional.linear(hidden_states, weight, torch.cat(given) if given else None)
    return list(together.split([layer.out_features for layer in projections], dim=-1))


class FusedSelfAttention:
    """To be named before a self-attention class with BERT's attributes, on whose parameters it works.

    Checkpoints stay as they are. With a cache of keys and values the class itself does the work.
    """

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    dropout: nn.Dropout
    attention_head_size: int
    scaling: float
    training: bool
    config: Any

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> Any:
        """The context [batch, length, size], and the weights where the attention function returns them."""
        if past_key_values is not None:
            return super().forward(hidden_states, attention_mask, past_key_values, **kwargs)  # type: ignore[misc]
        batch, length, _ = hidden_states.shape
        query, key, value = (
            part.view(batch, length, -1, self.attention_head_size).transpose(1, 2)
            for part in project_together(hidden_states, (self.query, self.key, self.value))
        )
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        dropout = self.dropout.p if self.training else 0.0
        context, weights = attend(
            self, query, key, value, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs
        )
        return context.reshape(batch, length, -1), weights
