"""The layers of GroupBERT (arXiv 2106.05822): a convolution for what is near, attention for what is far.

In: hidden states [batch, length, size] and masks. Out: hidden states. Every part normalises first and adds its result
to what came in. Parameters have the names of published checkpoints.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

from optimum.graphcore.models.bert.attention import BertFusedSelfAttention


class GroupBertConvolution(nn.Module):
    """Gate, grouped convolution over the tokens, projection."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, kernel = config.hidden_size, config.conv_kernel_size
        self.prenorm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.glu = nn.Linear(size, 2 * size)
        self.groupconv = nn.Conv1d(size, size, kernel, padding=(kernel - 1) // 2, groups=size // config.conv_group_size)
        self.conv_norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.output_projection = nn.Linear(size, size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: torch.Tensor, token_mask: torch.Tensor | None) -> torch.Tensor:
        gates, values = self.glu(self.prenorm(hidden_states)).chunk(2, dim=-1)
        inputs = values * torch.sigmoid(gates)
        if token_mask is not None:  # padding must not reach its neighbours
            inputs = inputs * token_mask.unsqueeze(-1).to(inputs.dtype)
        mixed = self.groupconv(inputs.transpose(1, 2)).transpose(1, 2)
        activated = nn.functional.silu(self.conv_norm(mixed))
        result: torch.Tensor = self.dropout(self.output_projection(activated))
        return hidden_states + result


class GroupBertIntermediate(nn.Module):
    """The first product of a feed-forward layer."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.intermediate_act_fn = (
            ACT2FN[config.hidden_act] if isinstance(config.hidden_act, str) else config.hidden_act
        )

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.intermediate_act_fn(self.dense(self.LayerNorm(hidden_states)))
        return result


class GroupBertOutput(nn.Module):
    """The second product, in groups that do not mix; a projection mixes them afterwards."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.grouped_matmul = nn.Conv1d(config.intermediate_size, config.hidden_size, 1, groups=config.ffn_groups)
        self.dense_output_projection = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        grouped = self.grouped_matmul(hidden_states.transpose(1, 2)).transpose(1, 2)
        result: torch.Tensor = self.dropout(self.dense_output_projection(grouped))
        return residual + result


class GroupBertSelfOutput(nn.Module):
    """BERT's projection after attention, without a norm: that comes first here."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.dropout(self.dense(hidden_states))
        return residual + result


class GroupBertAttention(nn.Module):
    """BERT's attention with its norm first."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.self = BertFusedSelfAttention(config)
        self.output = GroupBertSelfOutput(config)

    def forward(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None, **kwargs: Any) -> torch.Tensor:
        context, _ = self.self(self.LayerNorm(hidden_states), attention_mask, **kwargs)
        result: torch.Tensor = self.output(context, hidden_states)
        return result


class GroupBertLayer(GradientCheckpointingLayer):
    """Convolution, feed-forward, attention, feed-forward."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.convolution = GroupBertConvolution(config)
        self.intermediate_first = GroupBertIntermediate(config)
        self.output_first = GroupBertOutput(config)
        self.attention = GroupBertAttention(config)
        self.intermediate_second = GroupBertIntermediate(config)
        self.output_second = GroupBertOutput(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        token_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        hidden_states = self.convolution(hidden_states, token_mask)
        hidden_states = self.output_first(self.intermediate_first(hidden_states), hidden_states)
        hidden_states = self.attention(hidden_states, attention_mask, **kwargs)
        result: torch.Tensor = self.output_second(self.intermediate_second(hidden_states), hidden_states)
        return result


class GroupBertEncoder(nn.Module):
    """The layers, and a last norm."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.layer = nn.ModuleList(GroupBertLayer(config) for _ in range(config.num_hidden_layers))
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: None = None,
        encoder_attention_mask: None = None,
        past_key_values: None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """The arguments are those that `BertModel` passes; those of decoders are not used."""
        token_mask = _find_token_mask(attention_mask)
        for layer in self.layer:
            hidden_states = layer(hidden_states, attention_mask, token_mask=token_mask, **kwargs)
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=self.LayerNorm(hidden_states))


def _find_token_mask(attention_mask: torch.Tensor | None) -> torch.Tensor | None:
    """Which tokens are no padding [batch, length], from what attention sees of them [batch, 1, length, length].

    The first token of a row is never padding, so its row of the mask says it all. A mask is boolean, or added to the
    scores: then 0 lets a token through.
    """
    if attention_mask is None:
        return None
    first = attention_mask[:, 0, 0, :]
    return first if first.dtype == torch.bool else first == 0
