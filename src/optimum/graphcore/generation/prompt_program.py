"""A whole prompt as one program: the keys and values of its tokens, and what follows the last of them.

In: a Transformers model as it is, and the tokens of a prompt, filled up to one length. Out: the logits of one token,
and what each layer keeps of all tokens. The host hands that to the program of single steps, which goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from optimum.graphcore.generation.decoder_program import ENCODER_STATES, keep_one_token
from optimum.graphcore.generation.device_cache import PromptCache, UncachedCrossAttention


class PromptProgram(nn.Module):
    """All tokens of a prompt at once. What fills it up comes last, so that no token of the prompt sees it."""

    def __init__(self, model: Any, constants: Mapping[str, Any]) -> None:
        super().__init__()
        self.pipelined_model: Any = model
        self._constants = {**constants, "use_cache": True}

    def forward(self, last: torch.Tensor, **inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The logits (rows, 1, vocabulary) that follow the token at position `last`; keys and values of each layer."""
        model, cache = self.pipelined_model, PromptCache()
        arguments: dict[str, Any] = {**inputs, "past_key_values": cache}
        if model.config.is_encoder_decoder:
            arguments["past_key_values"] = EncoderDecoderCache(cache, UncachedCrossAttention())
        if (states := arguments.pop(ENCODER_STATES, None)) is not None:
            arguments["encoder_outputs"] = BaseModelOutput(last_hidden_state=states)
        with keep_one_token(model.get_output_embeddings(), last):
            # the model's own __call__ may lead back to this program
            result = nn.Module.__call__(model, **arguments, **self._constants, return_dict=True)
        return (result.logits, *(tensor for pair in cache.list_states() for tensor in pair))
