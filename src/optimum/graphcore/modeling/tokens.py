"""Small functions on sequences of tokens, with static shapes.

In: token numbers, labels, hidden states [batch, length, size]. Out: tensors of sizes that do not depend on values.
"""

from __future__ import annotations

import torch
from torch import nn

IGNORED_LABEL = -100  # cross entropy leaves these positions out


class OnehotGather(nn.Module):
    """Rows of a sequence at given positions, as a product with a one-hot matrix, which an IPU does quickly."""

    def forward(self, sequence: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """`sequence` [batch, length, size], `positions` [batch, count] -> [batch, count, size]."""
        chosen = nn.functional.one_hot(positions, sequence.shape[1]).to(sequence.dtype)
        return torch.matmul(chosen.detach(), sequence)


def select_masked_tokens(labels: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` largest labels of each row, and where they stand. The ignored label, -100, comes last."""
    chosen, positions = torch.topk(labels, k=min(count, labels.shape[1]), dim=1)
    return chosen, positions


def shift_tokens_right(input_ids: torch.Tensor, pad_token_id: int | None, decoder_start_token_id: int) -> torch.Tensor:
    """Decoder inputs from labels: one to the right, with a start token, and padding in place of ignored labels."""
    if pad_token_id is None:
        raise ValueError("self.model.config.pad_token_id has to be defined: set it to the tokenizer's pad_token_id.")
    start = torch.full_like(input_ids[:, :1], decoder_start_token_id)
    shifted = torch.cat([start, input_ids[:, :-1]], dim=1)
    return torch.where(shifted == IGNORED_LABEL, pad_token_id, shifted)
