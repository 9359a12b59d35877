"""Decoders: GPT and GPT-NeoX.

In: a `DecoderShape` and a `Format`. Out: modules on tokens, with the loss of the next token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openipu.models.layers import Format, Linear, make_embedding, make_layer_norm
from openipu.models.text.encoders import turn


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """Sizes of one decoder."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    most_positions: int = 1024
    rotary: bool = False  # with a parallel residual, as GPT-NeoX has it
    tied: bool = True  # the last layer shares the embedding's weights
    flash_pieces: int = 0  # attention in so many pieces of the queries, without the whole score matrix
    dropout: float = 0.0


class DecoderBlock(nn.Module):
    """Causal attention and a feed-forward part."""

    def __init__(self, shape: DecoderShape, form: Format) -> None:
        super().__init__()
        self.shape = shape
        width = shape.hidden
        self.norm_attention, self.norm_output = make_layer_norm(width, form), make_layer_norm(width, form)
        self.qkv, self.output = Linear(width, 3 * width, form), Linear(width, width, form)
        self.widen, self.narrow = Linear(width, 4 * width, form), Linear(4 * width, width, form)

    def forward(self, hidden: Tensor, hide: Tensor, places: Tensor | None) -> Tensor:
        mixed = self._attend(self.norm_attention(hidden), hide, places)
        if self.shape.rotary:
            result: Tensor = hidden + mixed + self._feed(self.norm_output(hidden))
            return result
        hidden = hidden + mixed
        return hidden + self._feed(self.norm_output(hidden))

    def _feed(self, hidden: Tensor) -> Tensor:
        fed = self.narrow(nn.functional.gelu(self.widen(hidden)))
        return nn.functional.dropout(fed, self.shape.dropout, self.training)

    def _attend(self, hidden: Tensor, hide: Tensor, places: Tensor | None) -> Tensor:
        batch, length, width = hidden.shape
        heads = self.shape.heads
        query, key, value = (
            part.view(batch, length, heads, width // heads).transpose(1, 2) for part in self.qkv(hidden).chunk(3, -1)
        )
        if places is not None:
            query, key = turn(query, places), turn(key, places)
        key = (key * (width // heads) ** -0.5).transpose(-1, -2)
        pieces = max(1, self.shape.flash_pieces)
        step = -(-length // pieces)
        mixed = [
            self._weigh(query[:, :, first : first + step] @ key + hide[first : first + step]) @ value
            for first in range(0, length, step)
        ]
        joined = mixed[0] if pieces == 1 else torch.cat(mixed, 2)
        result: Tensor = self.output(joined.transpose(1, 2).reshape(batch, length, width))
        return nn.functional.dropout(result, self.shape.dropout, self.training)

    def _weigh(self, scores: Tensor) -> Tensor:
        return nn.functional.dropout(scores.softmax(-1), self.shape.dropout, self.training)


class Decoder(nn.Module):
    """Embeddings, blocks, the next token's logits or loss."""

    def __init__(self, shape: DecoderShape, form: Format) -> None:
        super().__init__()
        self.shape = shape
        self.words = make_embedding(shape.vocabulary, shape.hidden, form)
        self.order = None if shape.rotary else make_embedding(shape.most_positions, shape.hidden, form)
        self.layers = nn.ModuleList([DecoderBlock(shape, form) for _ in range(shape.layers)])
        self.norm = make_layer_norm(shape.hidden, form)
        self.decode = None if shape.tied else Linear(shape.hidden, shape.vocabulary, form, bias=False)

    def forward(self, tokens: Tensor, labels: Tensor | None = None) -> Tensor:
        length = tokens.shape[1]
        hidden = self.words(tokens)
        if self.order is not None:
            hidden = hidden + self.order(torch.arange(length, device=tokens.device))
        hide = torch.full((length, length), -10000.0, dtype=hidden.dtype, device=tokens.device).triu(1)
        places = hidden.new_ones(2, length, self.shape.hidden // self.shape.heads) if self.shape.rotary else None
        for layer in self.layers:
            hidden = layer(hidden, hide, places)
        hidden = self.norm(hidden)
        weight = self.words.weight if self.decode is None else self.decode.weight
        logits = nn.functional.linear(hidden, weight)
        return logits if labels is None else nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
