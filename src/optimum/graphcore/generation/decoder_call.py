"""One call of a generating model, sorted.

In: the arguments that Transformers' search gives to a model. Out: a `DecoderCall`, which hands out what one step of a
program takes, in shapes that are the same for every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from optimum.graphcore.generation.decoder_program import ENCODER_MASK, ENCODER_STATES

Tensors = dict[str, torch.Tensor]
_NOT_PASSED_ON = ("return_dict", "use_cache", "logits_to_keep", "labels", "output_attentions", "output_hidden_states")
_ENCODER_INPUTS = ("input_ids", "input_features", "inputs_embeds")


@dataclass(frozen=True)
class DecoderCall:
    """The arguments of one call, by what becomes of them."""

    token_name: str
    tokens: torch.Tensor  # (rows, new tokens)
    mask_name: str
    mask: torch.Tensor | None  # (rows, all tokens)
    by_token: Tensors = field(default_factory=dict)  # positions, token types: (rows, new tokens)
    held: Tensors = field(default_factory=dict)  # the same in all steps of a sequence: what the encoder made
    constants: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, inputs: dict[str, Any], encoder_decoder: bool) -> DecoderCall:
        """Sort the arguments of a model."""
        prefix = "decoder_" if encoder_decoder else ""
        left = {name: value for name, value in inputs.items() if value is not None and name not in _NOT_PASSED_ON}
        tokens = left.pop(f"{prefix}input_ids", None)
        if tokens is None:
            raise NotImplementedError(
                f"`generate` on IPUs starts from {prefix}input_ids: embeddings in their place are not supported."
            )
        mask = left.pop(f"{prefix}attention_mask", None)
        by_token = {
            name: left.pop(name).expand(*tokens.shape)
            for name in (f"{prefix}position_ids", "token_type_ids")
            if name in left
        }
        held: Tensors = {}
        if (outputs := left.pop("encoder_outputs", None)) is not None:
            held[ENCODER_STATES] = outputs[0]
        if encoder_decoder and ENCODER_MASK in left:
            held[ENCODER_MASK] = left.pop(ENCODER_MASK)
        if encoder_decoder:  # the encoder has read them
            left = {name: value for name, value in left.items() if name not in _ENCODER_INPUTS}
        unknown = [name for name, value in left.items() if isinstance(value, torch.Tensor)]
        if unknown:
            raise NotImplementedError(
                f"`generate` on IPUs does not know what to do with {unknown}: leave these arguments out."
            )
        return cls(f"{prefix}input_ids", tokens, f"{prefix}attention_mask", mask, by_token, held, left)

    @property
    def rows(self) -> int:
        return len(self.tokens)

    def without(self, name: str) -> DecoderCall:
        """The same call without something that the encoder made."""
        return replace(self, held={key: value for key, value in self.held.items() if key != name})

    def take_every(self, stride: int) -> DecoderCall:
        """One row of each `stride` rows: where all beams of a text are the same, one of them."""
        if stride == 1:
            return self
        return replace(
            self,
            tokens=self.tokens[::stride],
            mask=None if self.mask is None else self.mask[::stride],
            by_token={name: value[::stride] for name, value in self.by_token.items()},
            held={name: value[::stride].contiguous() for name, value in self.held.items()},
        )

    def list_tokens(self, first: int, length: int) -> Tensors:
        """What belongs to `length` tokens from `first` on; past the end, the last one is repeated."""
        found = {self.token_name: self.tokens, **self.by_token}
        missing = first + length - self.tokens.shape[1]
        if missing > 0:
            found = {name: torch.cat([value, value[:, -1:].expand(-1, missing)], 1) for name, value in found.items()}
        return {name: value[:, first : first + length].contiguous() for name, value in found.items()}

    def fill_mask(self, length: int) -> Tensors:
        """The mask for `length` tokens. Tokens that are still to come are hidden by their order, not by the mask."""
        mask = self.tokens.new_ones(self.rows, 1) if self.mask is None else self.mask
        return {self.mask_name: nn.functional.pad(mask, (0, length - mask.shape[1]), value=1)}
