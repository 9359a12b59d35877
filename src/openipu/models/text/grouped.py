"""GroupBERT (Chelombiev et al. 2021): an encoder with convolutions beside attention, and feed-forward parts in groups.

In: a `GroupedShape` and a `Format`. Out: a module on tokens with the loss of masked words.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openipu.models.layers import Convolution, Format, Linear, make_embedding, make_layer_norm
from openipu.models.text.encoders import Attention, EncoderShape


@dataclass(frozen=True, slots=True)
class GroupedShape:
    """Sizes."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int = 30522
    positions: int = 512
    groups: int = 4  # of the second product of a feed-forward part
    kernel: int = 7
    channels: int = 16  # of a group of the convolution
    predicted: int = 20


class GroupedFeedForward(nn.Module):
    """Norm first; the product that narrows works on groups, and a last one mixes them."""

    def __init__(self, shape: GroupedShape, form: Format) -> None:
        super().__init__()
        width = shape.hidden
        self.norm = make_layer_norm(width, form)
        self.widen = Linear(width, 4 * width, form)
        self.narrow = Convolution(4 * width, width, 1, form, groups=shape.groups, dims=1)
        self.mix = Linear(width, width, form)

    def forward(self, hidden: Tensor) -> Tensor:
        wide = nn.functional.gelu(self.widen(self.norm(hidden)))
        result: Tensor = hidden + self.mix(self.narrow(wide.transpose(1, 2)).transpose(1, 2))
        return result


class GroupedConvolution(nn.Module):
    """Gate, convolve neighbours in groups, norm, mix."""

    def __init__(self, shape: GroupedShape, form: Format) -> None:
        super().__init__()
        width = shape.hidden
        self.norm, self.norm_inside = make_layer_norm(width, form), make_layer_norm(width, form)
        self.gate, self.mix = Linear(width, 2 * width, form), Linear(width, width, form)
        groups = max(1, width // shape.channels)
        self.filter = Convolution(width, width, shape.kernel, form, groups=groups, dims=1)

    def forward(self, hidden: Tensor) -> Tensor:
        gated = nn.functional.glu(self.gate(self.norm(hidden)), -1)
        filtered = self.filter(gated.transpose(1, 2)).transpose(1, 2)
        result: Tensor = hidden + self.mix(nn.functional.silu(self.norm_inside(filtered)))
        return result


class GroupedBlock(nn.Module):
    """Attention, feed-forward, convolution, feed-forward."""

    def __init__(self, shape: GroupedShape, form: Format) -> None:
        super().__init__()
        self.norm = make_layer_norm(shape.hidden, form)
        self.attention = Attention(EncoderShape(1, shape.hidden, shape.heads, 0), form)
        self.convolution = GroupedConvolution(shape, form)
        self.first, self.second = GroupedFeedForward(shape, form), GroupedFeedForward(shape, form)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = self.first(hidden + self.attention(self.norm(hidden), None, None))
        result: Tensor = self.second(self.convolution(hidden))
        return result


class GroupedEncoder(nn.Module):
    """Embeddings, blocks, and the words behind the first, masked tokens."""

    def __init__(self, shape: GroupedShape, form: Format) -> None:
        super().__init__()
        self.predicted = shape.predicted
        self.words = make_embedding(shape.vocabulary, shape.hidden, form)
        self.order = make_embedding(shape.positions, shape.hidden, form)
        self.layers = nn.ModuleList([GroupedBlock(shape, form) for _ in range(shape.layers)])
        self.norm = make_layer_norm(shape.hidden, form)

    def forward(self, tokens: Tensor, labels: Tensor | None = None) -> Tensor:
        hidden = self.words(tokens) + self.order(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            hidden = layer(hidden)
        logits = nn.functional.linear(self.norm(hidden[:, : self.predicted]), self.words.weight)
        if labels is None:
            return logits
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels[:, : self.predicted].flatten())
