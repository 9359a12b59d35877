"""MPNet's self-attention with one projection for queries, keys and values."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

from optimum.graphcore.modeling.attention import project_together


class MPNetFusedSelfAttention(MPNetSelfAttention):
    """Stands in for `MPNetSelfAttention` on the same parameters, so that checkpoints stay as they are."""

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_bias: torch.Tensor | None = None,
        output_attentions: bool = False,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, ...]:
        batch, length, _ = hidden_states.shape
        query, key, value = (
            part.view(batch, length, -1, self.attention_head_size).transpose(1, 2)
            for part in project_together(hidden_states, (self.q, self.k, self.v))
        )
        scores = torch.matmul(query, key.transpose(-1, -2)) * self.attention_head_size**-0.5
        for term in (position_bias, attention_mask):
            if term is not None:
                scores = scores + term
        weights = self.dropout(nn.functional.softmax(scores, dim=-1))
        context = torch.matmul(weights, value).transpose(1, 2).reshape(batch, length, self.all_head_size)
        result: torch.Tensor = self.o(context)
        return (result, weights) if output_attentions else (result,)
