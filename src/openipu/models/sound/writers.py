"""A decoder that writes text while it attends to what an encoder heard (Vaswani et al. 2017).

In: a `WriterShape` and a `Format`. Out: a module on words and encoded frames that gives the loss of the next word.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openipu.models.layers import Format, Linear, make_embedding, make_layer_norm


@dataclass(frozen=True, slots=True)
class WriterShape:
    """Sizes of a writer."""

    layers: int
    hidden: int
    heads: int
    feed_forward: int
    vocabulary: int
    most_positions: int
    dropout: float = 0.0  # of each part's result, and inside of the feed-forward ones


class CrossAttention(nn.Module):
    """Heads whose queries come from one sequence, keys and values from another."""

    def __init__(self, shape: WriterShape, form: Format) -> None:
        super().__init__()
        self.heads = shape.heads
        width = shape.hidden
        self.query, self.key, self.value = (Linear(width, width, form) for _ in range(3))
        self.output = Linear(width, width, form)

    def forward(self, words: Tensor, source: Tensor, hide: Tensor | None) -> Tensor:
        query, key, value = (
            self._split(self.query(words)),
            self._split(self.key(source)),
            self._split(self.value(source)),
        )
        scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        weights = (scores if hide is None else scores + hide).softmax(-1)
        mixed = (weights @ value).transpose(1, 2).flatten(2)
        result: Tensor = self.output(mixed)
        return result

    def _split(self, values: Tensor) -> Tensor:
        batch, length, width = values.shape
        return values.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


class WriterBlock(nn.Module):
    """Attention to the words before, attention to the source, a feed-forward part."""

    def __init__(self, shape: WriterShape, form: Format) -> None:
        super().__init__()
        width, self.dropout = shape.hidden, shape.dropout
        self.norm_words, self.norm_source, self.norm_output = (make_layer_norm(width, form) for _ in range(3))
        self.words, self.source = CrossAttention(shape, form), CrossAttention(shape, form)
        self.widen, self.narrow = Linear(width, shape.feed_forward, form), Linear(shape.feed_forward, width, form)

    def forward(self, hidden: Tensor, source: Tensor, hide: Tensor) -> Tensor:
        normed = self.norm_words(hidden)
        hidden = hidden + self._drop(self.words(normed, normed, hide))
        hidden = hidden + self._drop(self.source(self.norm_source(hidden), source, None))
        inner = self._drop(self.widen(self.norm_output(hidden)).relu())
        result: Tensor = hidden + self._drop(self.narrow(inner))
        return result

    def _drop(self, hidden: Tensor) -> Tensor:
        return nn.functional.dropout(hidden, self.dropout, self.training)


class Writer(nn.Module):
    """Embeddings, blocks, and the loss of each next word."""

    def __init__(self, shape: WriterShape, form: Format) -> None:
        super().__init__()
        self.table = make_embedding(shape.vocabulary, shape.hidden, form)
        self.order = make_embedding(shape.most_positions, shape.hidden, form)
        self.blocks = nn.ModuleList([WriterBlock(shape, form) for _ in range(shape.layers)])
        self.norm = make_layer_norm(shape.hidden, form)
        self.say = Linear(shape.hidden, shape.vocabulary, form)

    def forward(self, words: Tensor, source: Tensor) -> Tensor:
        length = words.shape[1]
        hidden = self.table(words) + self.order(torch.arange(length, device=words.device))
        hide = torch.full((length, length), -10000.0, dtype=hidden.dtype, device=words.device).triu(1)
        for block in self.blocks:
            hidden = block(hidden, source, hide)
        logits: Tensor = self.say(self.norm(hidden))
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), words.flatten().long())
