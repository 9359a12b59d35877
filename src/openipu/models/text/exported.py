"""BERT as the converter's own table has it: Google's TensorFlow model, exported operation by operation.

In: an `EncoderShape` and a `Format`. Out: a module on tokens. The table names its file, `bertsquad-12.onnx`. Nothing in
that graph is fused: queries, keys and values are three products, scores are scaled after the product, every layer
makes the mask of all pairs of tokens again, and norms and GELU are chains of single operations (Devlin et al. 2018,
`modeling.py` of their release).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from openipu.models.layers import Format, Linear
from openipu.models.text.encoders import EncoderShape, Gelu


class ExportedNorm(nn.Module):
    """A layer norm out of moments and a batch normalisation: x s + (shift - mean s), where s = scale / deviation."""

    def __init__(self, size: int, form: Format) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(size, dtype=form.dtype))
        self.shift = nn.Parameter(torch.empty(size, dtype=form.dtype))

    def forward(self, hidden: Tensor) -> Tensor:
        mean = hidden.mean(-1, keepdim=True)
        difference = hidden - mean
        variance = (difference * difference).mean(-1, keepdim=True)
        factor = (variance + 1e-12).sqrt().reciprocal() * self.scale
        return hidden * factor + (self.shift - mean * factor)


class ExportedAttention(nn.Module):
    """Heads of scaled dot products, each operation by itself."""

    def __init__(self, shape: EncoderShape, form: Format) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query, self.key, self.value = (Linear(shape.hidden, shape.hidden, form) for _ in range(3))
        self.output = Linear(shape.hidden, shape.hidden, form)

    def forward(self, hidden: Tensor, pairs: Tensor) -> Tensor:
        batch, length, _ = pairs.shape
        width = hidden.shape[-1] // self.heads
        query, key, value = (
            part(hidden).view(batch, length, self.heads, width).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        scores = (query @ key.transpose(-1, -2)) * (1.0 / math.sqrt(width))
        scores = scores + (1.0 - pairs[:, None]) * -10000.0
        result: Tensor = self.output((scores.softmax(-1) @ value).transpose(1, 2).reshape(hidden.shape))
        return result


def activate_in_parts(hidden: Tensor) -> Tensor:
    """The GELU of the release: half of x times 1 + tanh of a cubic polynomial."""
    cube = torch.pow(hidden, hidden.new_full((), 3.0))  # the exponent is a tensor there: no square and multiply
    inner = math.sqrt(2.0 / math.pi) * (hidden + 0.044715 * cube)
    return hidden * (0.5 * (1.0 + inner.tanh()))


class ExportedBlock(nn.Module):
    """Attention and a feed-forward part, each with a residual and a norm."""

    def __init__(self, shape: EncoderShape, form: Format) -> None:
        super().__init__()
        self.fused = shape.gelu is Gelu.FUSED
        self.attention = ExportedAttention(shape, form)
        self.norm_attention = ExportedNorm(shape.hidden, form)
        self.widen = Linear(shape.hidden, shape.feed_forward, form)
        self.narrow = Linear(shape.feed_forward, shape.hidden, form)
        self.norm_output = ExportedNorm(shape.hidden, form)

    def forward(self, hidden: Tensor, pairs: Tensor) -> Tensor:
        hidden = self.norm_attention(self.attention(hidden, pairs) + hidden)
        wide = self.widen(hidden)
        active = nn.functional.gelu(wide, approximate="tanh") if self.fused else activate_in_parts(wide)
        result: Tensor = self.norm_output(self.narrow(active) + hidden)
        return result


class ExportedEncoder(nn.Module):
    """Embeddings, blocks on a matrix of all tokens, begin and end of an answer."""

    def __init__(self, shape: EncoderShape, form: Format) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.hidden, dtype=form.dtype)
        self.kinds = nn.Parameter(torch.empty(2, shape.hidden, dtype=form.dtype))
        self.order = nn.Parameter(torch.empty(shape.most_positions, shape.hidden, dtype=form.dtype))
        self.norm = ExportedNorm(shape.hidden, form)
        self.layers = nn.ModuleList([ExportedBlock(shape, form) for _ in range(shape.layers)])
        self.answer = Linear(shape.hidden, 2, Format.HALF if form is Format.FLOAT8 else form)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        batch, length = tokens.shape
        words = self.words(tokens)
        kinds = nn.functional.one_hot(torch.zeros_like(tokens).long(), 2).to(words.dtype) @ self.kinds
        hidden = self.norm(words + kinds + self.order[:length]).flatten(0, 1)
        pairs = mask.to(words.dtype)[:, None, :] * words.new_ones(batch, length, 1)
        for layer in self.layers:
            hidden = layer(hidden, pairs)
        logits: Tensor = self.answer(hidden).view(batch, length, 2).permute(2, 0, 1)
        return logits
