"""Transformer encoders: BERT and its relatives, ViT, CLIP.

In: an `EncoderShape` and a `Format`. Out: modules on tokens or images. Attention is written out as products and a
softmax, which is what a static graph is made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor, nn

from openipu.capture import mark_loss
from openipu.graph.library import define_operator
from openipu.models.layers import Convolution, Format, Linear, make_embedding, make_layer_norm, make_vectors

# What converters put in place of a softmax between products, and of a GELU by the error function: for plans alone.
define_operator("fused_softmax(Tensor scores) -> Tensor", meta=torch.empty_like)
define_operator("exact_gelu(Tensor input) -> Tensor", meta=torch.empty_like)
BLOCK = 16  # channels that the AMP units take at a time


class Positions(StrEnum):
    """How a model knows the order of its tokens."""

    ABSOLUTE = "absolute"  # added to the embeddings
    ROTARY = "rotary"  # queries and keys are turned (Su et al. 2021)
    DISENTANGLED = "disentangled"  # products of content and relative position (He et al. 2020)


class Gelu(StrEnum):
    """How the activation of the feed-forward part is computed."""

    FUSED = "fused"  # one vertex
    PARTS = "parts"  # by a hyperbolic tangent, each operation by itself
    RELU = "relu"
    QUICK = "quick"  # x sigmoid(1.702 x)
    ERROR_FUNCTION = "error function"  # the exact one


@dataclass(frozen=True, slots=True)
class EncoderShape:
    """Sizes of one encoder."""

    layers: int
    hidden: int
    heads: int
    feed_forward: int
    vocabulary: int = 0
    most_positions: int = 512
    positions: Positions = Positions.ABSOLUTE
    norm_first: bool = False
    gelu: Gelu = Gelu.FUSED
    shares_layers: bool = False  # one layer's weights for all (Lan et al. 2019)
    embedding: int = 0  # width of the embeddings where it differs
    dropout: float = 0.0
    attention_dropout: bool = True  # where anything is dropped
    inner_dropout: bool = False  # also of embeddings, and of what the activation makes
    separate: bool = False  # queries, keys and values by three products, scores scaled after theirs: Hugging Face's way
    causal: bool = False  # a token sees only those before it
    fused_attention: bool = False  # scores stay in the order of the products that make and take them
    padded_attention: bool = False  # queries, keys and values are filled up to whole blocks of tokens
    float_parts: bool = False  # norms and activations in float32, whatever the products are in
    packed: bool = False  # several sequences share a row: the mask names them, and tokens see those of their own

    @property
    def norm_form(self) -> Format | None:
        """What norms are computed in, where that is not the model's format."""
        return Format.FLOAT32 if self.float_parts else None


class Attention(nn.Module):
    """Heads of scaled dot products."""

    def __init__(self, shape: EncoderShape, form: Format) -> None:
        super().__init__()
        self.shape = shape
        if shape.separate:
            self.parts = nn.ModuleList([Linear(shape.hidden, shape.hidden, form) for _ in range(3)])
        else:
            self.qkv = Linear(shape.hidden, 3 * shape.hidden, form)
        self.output = Linear(shape.hidden, shape.hidden, form)
        if shape.positions is Positions.DISENTANGLED:
            self.relative = Linear(shape.hidden, 2 * shape.hidden, form)

    def forward(self, hidden: Tensor, mask: Tensor | None, places: Tensor | None) -> Tensor:
        batch, length, width = hidden.shape
        heads = self.shape.heads
        products = [part(hidden) for part in self.parts] if self.shape.separate else self.qkv(hidden).chunk(3, -1)
        query, key, value = (part.view(batch, length, heads, width // heads).transpose(1, 2) for part in products)
        if self.shape.positions is Positions.ROTARY and places is not None:
            query, key = turn(query, places), turn(key, places)
        if self.shape.padded_attention:
            query, key, value = fill_up(query, key, value)
        scale = (width // heads) ** -0.5
        if self.shape.separate:
            scores = (query @ key.transpose(-1, -2)) * scale
        else:
            scores = query @ (key * scale).transpose(-1, -2)
        if self.shape.positions is Positions.DISENTANGLED and places is not None:
            scores = scores + self._compare_places(query, key, places)
        if mask is not None:
            scores = scores + mask
        dropout = self.shape.dropout if self.shape.attention_dropout else 0.0
        weights = torch.ops.openipu.fused_softmax(scores) if self.shape.fused_attention else scores.softmax(-1)
        weights = nn.functional.dropout(weights, dropout, self.training)
        mixed = (weights @ value)[..., :length, :]
        result: Tensor = self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        return result

    def _compare_places(self, query: Tensor, key: Tensor, places: Tensor) -> Tensor:
        """Content with relative position and position with content, brought to the distance of each pair."""
        length, heads = query.shape[-2], self.shape.heads
        width = query.shape[-1]
        near_key, near_query = (
            part.view(2 * length, heads, width).transpose(0, 1) for part in self.relative(places).chunk(2, -1)
        )
        distance = torch.arange(length, device=query.device)
        index = (distance[:, None] - distance[None, :] + length).expand(*query.shape[:2], length, length)
        content = torch.gather(query @ near_key.transpose(-1, -2), -1, index)
        position = torch.gather(key @ near_query.transpose(-1, -2), -1, index).transpose(-1, -2)
        return content + position


def fill_up(*heads: Tensor) -> Iterator[Tensor]:
    """Rows of zeros up to whole blocks of tokens."""
    return (nn.functional.pad(part, (0, 0, 0, -part.shape[-2] % BLOCK)) for part in heads)


def turn(heads: Tensor, angles: Tensor) -> Tensor:
    """Rotary positions: pairs of features are turned by an angle that grows with the position."""
    even, odd = heads[..., ::2], heads[..., 1::2]
    turned = torch.stack((-odd, even), -1).reshape(heads.shape)
    return heads * angles[0] + turned * angles[1]


class Block(nn.Module):
    """Attention and a feed-forward part, each with a residual and a norm."""

    def __init__(self, shape: EncoderShape, form: Format) -> None:
        super().__init__()
        self.shape = shape
        self.attention = Attention(shape, form)
        self.norm_attention = make_layer_norm(shape.hidden, form, shape.norm_form)
        self.widen = Linear(shape.hidden, shape.feed_forward, form)
        self.narrow = Linear(shape.feed_forward, shape.hidden, form)
        self.norm_output = make_layer_norm(shape.hidden, form, shape.norm_form)

    def forward(self, hidden: Tensor, mask: Tensor | None = None, places: Tensor | None = None) -> Tensor:
        if self.shape.norm_first:
            hidden = hidden + self._drop(self.attention(self.norm_attention(hidden), mask, places))
            return hidden + self._drop(self._feed(self.norm_output(hidden)))
        hidden = self.norm_attention(hidden + self._drop(self.attention(hidden, mask, places)))
        result: Tensor = self.norm_output(hidden + self._drop(self._feed(hidden)))
        return result

    def _feed(self, hidden: Tensor) -> Tensor:
        wide = self.widen(hidden)
        active = activate(wide.float() if self.shape.float_parts else wide, self.shape.gelu)
        inner = active.to(wide.dtype)
        result: Tensor = self.narrow(self._drop(inner) if self.shape.inner_dropout else inner)
        return result

    def _drop(self, hidden: Tensor) -> Tensor:
        return nn.functional.dropout(hidden, self.shape.dropout, self.training)


def activate(hidden: Tensor, how: Gelu) -> Tensor:
    """The activation, as one op or written out."""
    if how is Gelu.RELU:
        return hidden.relu()
    if how is Gelu.QUICK:
        return hidden * (1.702 * hidden).sigmoid()
    if how is Gelu.ERROR_FUNCTION:
        result: Tensor = torch.ops.openipu.exact_gelu(hidden)
        return result
    return nn.functional.gelu(hidden)


class Head(StrEnum):
    """What an encoder ends in."""

    NONE = "none"
    SPAN = "span"  # begin and end of an answer
    MASKED = "masked tokens"  # pre-training: the words behind some tokens, and the next sentence
    CLASSES = "classes"


class TokenEncoder(nn.Module):
    """Embeddings, blocks, a head."""

    def __init__(
        self, shape: EncoderShape, form: Format, head: Head = Head.NONE, *, predicted: int = 0, classes: int = 2
    ) -> None:
        super().__init__()
        self.shape, self.head, self.predicted = shape, head, predicted
        width = shape.embedding or shape.hidden
        self.words = make_embedding(shape.vocabulary, width, form)
        self.kinds = make_embedding(2, width, form)
        self.order = make_embedding(shape.most_positions, width, form)
        self.norm = make_layer_norm(width, form)
        self.lift = Linear(width, shape.hidden, form) if width != shape.hidden else None
        count = 1 if shape.shares_layers else shape.layers
        self.layers = nn.ModuleList([Block(shape, form) for _ in range(count)])
        if head is Head.MASKED:
            self.transform = Linear(shape.hidden, shape.hidden, form)
            self.norm_head = make_layer_norm(shape.hidden, form)
            self.decode_shift = nn.Parameter(torch.zeros(shape.vocabulary, dtype=form.dtype))
            self.pool, self.follow = Linear(shape.hidden, shape.hidden, form), Linear(shape.hidden, 2, form)
        elif head is not Head.NONE:
            self.classify = Linear(shape.hidden, classes, form)

    def forward(self, tokens: Tensor, mask: Tensor | None = None, labels: Tensor | None = None) -> Tensor:
        length = tokens.shape[1]
        place = torch.arange(length, device=tokens.device)
        hidden = self.words(tokens) + self.order(place) + self.kinds(torch.zeros_like(place))
        hidden = nn.functional.dropout(self.norm(hidden), self.shape.dropout, self.training)
        if self.lift is not None:
            hidden = self.lift(hidden)
        bias = None
        if mask is not None and self.shape.packed:
            together = (mask[:, None, :] == mask[:, :, None]).to(hidden.dtype)
            bias = ((1.0 - together) * -10000.0)[:, None]
        elif mask is not None:
            bias = ((1.0 - mask.to(hidden.dtype)) * -10000.0)[:, None, None, :]
        elif self.shape.causal:
            bias = hidden.new_ones(1, 1, length, length)
        places = self._make_places(hidden, length)
        for index in range(self.shape.layers):
            hidden = self.layers[0 if self.shape.shares_layers else index](hidden, bias, places)
        return self._finish(hidden, labels)

    def _make_places(self, hidden: Tensor, length: int) -> Tensor | None:
        shape = self.shape
        if shape.positions is Positions.ROTARY:
            return hidden.new_ones(2, length, shape.hidden // shape.heads)
        if shape.positions is Positions.DISENTANGLED:
            return self.order(torch.arange(2 * length, device=hidden.device) % shape.most_positions)  # type: ignore[no-any-return]
        return None

    def _finish(self, hidden: Tensor, labels: Tensor | None) -> Tensor:
        if self.head is Head.NONE:
            return hidden
        if self.head is not Head.MASKED:
            logits: Tensor = self.classify(hidden if self.head is Head.SPAN else hidden[:, 0])
            if labels is None:
                return logits
            return nn.functional.cross_entropy(logits.flatten(0, -2).float(), labels.flatten())
        chosen = hidden[:, : self.predicted]  # masked tokens are moved to the front
        guessed = self.norm_head(nn.functional.gelu(self.transform(chosen)))
        words = nn.functional.linear(guessed, self.words.weight, self.decode_shift)  # the embedding's own weights
        if labels is None:
            return words
        pair = self.follow(torch.tanh(self.pool(hidden[:, 0])))
        guess = nn.functional.cross_entropy(words.flatten(0, 1).float(), labels[:, : self.predicted].flatten())
        follows = nn.functional.cross_entropy(pair.float(), labels[:, -1])
        return mark_loss(guess + follows, "sum")


class ImageEncoder(nn.Module):
    """ViT (Dosovitskiy et al. 2020): patches as tokens, and a class token in front."""

    def __init__(self, shape: EncoderShape, form: Format, *, patch: int, classes: int, pixels: int = 224) -> None:
        super().__init__()
        self.shape = shape
        self.patches = Convolution(3, shape.hidden, patch, form, stride=patch, padding=0)
        count = (pixels // patch) ** 2
        self.first = make_vectors(1, 1, shape.hidden, form=form)
        self.order = make_vectors(1, count + 1, shape.hidden, form=form)
        self.layers = nn.ModuleList([Block(shape, form) for _ in range(shape.layers)])
        self.norm = make_layer_norm(shape.hidden, form)
        self.classify = Linear(shape.hidden, classes, form)

    def forward(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        patches = self.patches(images).flatten(2).transpose(1, 2)
        hidden = torch.cat((self.first.expand(images.shape[0], -1, -1), patches), 1)
        hidden = hidden + self.order[:, : hidden.shape[1]]
        if self.shape.inner_dropout:
            hidden = nn.functional.dropout(hidden, self.shape.dropout, self.training)
        for layer in self.layers:
            hidden = layer(hidden)
        logits: Tensor = self.classify(self.norm(hidden)[:, 0])
        return logits if labels is None else nn.functional.cross_entropy(logits.float(), labels)


class PairEncoder(nn.Module):
    """CLIP (Radford et al. 2021): an image and a text, each as one vector, and how well they agree."""

    def __init__(self, image: ImageEncoder, text: TokenEncoder, form: Format, *, joint: int) -> None:
        super().__init__()
        self.image, self.text = image, text
        self.text_to_joint = Linear(text.shape.hidden, joint, form, bias=False)

    def forward(self, images: Tensor, tokens: Tensor) -> Tensor:
        seen, read = self.image(images), self.text_to_joint(self.text(tokens)[:, -1])
        seen, read = nn.functional.normalize(seen, dim=-1), nn.functional.normalize(read, dim=-1)
        return seen @ read.transpose(0, 1)
