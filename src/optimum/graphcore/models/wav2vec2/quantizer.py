"""The vector quantizer of Wav2Vec2 as one product for each group of code vectors.

In: features [batch, frames, size]. Out: a code vector for each frame, and how many code vectors are in use.
Transformers multiplies every code vector with its probability and adds: for 2 groups of 320 vectors that is 320 times
the memory of the result.
"""

from __future__ import annotations

import torch
from torch.nn import functional
from transformers.models.wav2vec2.modeling_wav2vec2 import Wav2Vec2GumbelVectorQuantizer


class IPUWav2Vec2GumbelVectorQuantizer(Wav2Vec2GumbelVectorQuantizer):
    """The same results and the same parameters, in less memory."""

    def forward(
        self, hidden_states: torch.Tensor, mask_time_indices: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        batch, frames, _ = hidden_states.shape
        logits = self.weight_proj(hidden_states).view(batch * frames, self.num_groups, self.num_vars)
        if self.training:
            choices = functional.gumbel_softmax(logits.float(), tau=self.temperature, hard=True).type_as(logits)
            distribution = torch.softmax(logits.float(), dim=-1)
        else:
            choices = distribution = functional.one_hot(logits.argmax(dim=-1), self.num_vars).type_as(logits)
        code_book = self.codevectors[0].view(self.num_groups, self.num_vars, -1)
        vectors = torch.bmm(choices.transpose(0, 1), code_book).transpose(0, 1)
        return vectors.reshape(batch, frames, -1), self._compute_perplexity(distribution, mask_time_indices)
