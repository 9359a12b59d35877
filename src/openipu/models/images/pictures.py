"""A decoder of pictures from text, token by token: the small DALL-E (Ramesh et al. 2021).

In: a `PictureShape` and a `Format`. Out: a module on words and images that gives the loss. A fixed encoder makes tokens
of the images. Most layers attend along one axis of the picture: each token sees the text, and its own row or column.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openipu.capture import mark_loss
from openipu.models.images.codebooks import PictureEncoder
from openipu.models.layers import Format, Linear, make_embedding, make_layer_norm, make_vectors

HIDDEN = -10000.0
PICTURE_WEIGHT = 7  # of the loss, against that of the words


@dataclass(frozen=True, slots=True)
class PictureShape:
    """Sizes of the vendor's public example."""

    layers: int = 16
    hidden: int = 512
    heads: int = 16
    head: int = 64
    words: int = 80
    side: int = 16  # a picture is so many tokens wide and high
    pieces: int = 8192 + 80  # of words, and a filler for each place
    codes: int = 1024  # of pictures

    def axis(self, layer: int) -> str:
        """Rows, rows, columns, rows; the last of every twelve and the last of all see everything."""
        if layer in (11, self.layers - 1):
            return "full"
        return "columns" if layer % 4 == 2 else "rows"


class AxialAttention(nn.Module):
    """Text sees the text before it; a picture's token sees the text, and one axis."""

    def __init__(self, shape: PictureShape, axis: str, form: Format) -> None:
        super().__init__()
        self.shape, self.axis = shape, axis
        inner = shape.heads * shape.head
        self.qkv, self.output = Linear(shape.hidden, 3 * inner, form, bias=False), Linear(inner, shape.hidden, form)
        length = shape.words + 1 + shape.side**2
        self.hide: Tensor  # what comes later
        self.register_buffer("hide", torch.full((length, length), HIDDEN, dtype=form.dtype).triu(1), persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        length, hide = hidden.shape[1], self.hide
        if self.axis != "full":  # rows and columns are whole: the last place, which predicts nothing, is filled up
            hidden = nn.functional.pad(hidden, (0, 0, 0, hide.shape[0] - length))
        query, key, value = (
            part.view(*hidden.shape[:2], self.shape.heads, self.shape.head).transpose(1, 2)
            for part in self.qkv(hidden).chunk(3, -1)
        )
        query = query * self.shape.head**-0.5
        if self.axis == "full":
            mixed = self._see_all(query, key, value, hide[:length, :length])
        else:
            mixed = self._see(query, key, value, hide)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))[:, :length]
        return result

    def _see_all(self, query: Tensor, key: Tensor, value: Tensor, hide: Tensor) -> Tensor:
        return (query @ key.transpose(-1, -2) + hide).softmax(-1) @ value

    def _see(self, query: Tensor, key: Tensor, value: Tensor, hide: Tensor) -> Tensor:
        count, side = self.shape.words + 1, self.shape.side
        (words, asked), (word_keys, keys), (word_values, values) = (
            (part[:, :, :count], part[:, :, count:]) for part in (query, key, value)
        )
        told = self._see_all(words, word_keys, word_values, hide[:count, :count])
        lines, line_keys, line_values = (self._line_up(part) for part in (asked, keys, values))
        along = lines @ line_keys.transpose(-1, -2)
        about = (lines.flatten(2, 3) @ word_keys.transpose(-1, -2)).view(*along.shape[:-1], count)
        hidden_ahead = torch.cat((hide.new_zeros(side, count), hide[:side, :side]), -1)
        weights = (torch.cat((about, along), -1) + hidden_ahead).softmax(-1)
        from_text = weights[..., :count].flatten(2, 3) @ word_values
        seen = from_text.view_as(lines) + weights[..., count:] @ line_values
        back = seen.transpose(2, 3) if self.axis == "columns" else seen
        return torch.cat((told, back.flatten(2, 3)), 2)

    def _line_up(self, tokens: Tensor) -> Tensor:
        batch, heads, _, width = tokens.shape
        lines = tokens.reshape(batch, heads, self.shape.side, self.shape.side, width)
        return lines.transpose(2, 3) if self.axis == "columns" else lines


class PictureBlock(nn.Module):
    """Attention and a gated feed-forward part, each scaled by a learned vector."""

    def __init__(self, shape: PictureShape, layer: int, form: Format) -> None:
        super().__init__()
        width = shape.hidden
        self.norm_attention, self.norm_output = make_layer_norm(width, form), make_layer_norm(width, form)
        self.attention = AxialAttention(shape, shape.axis(layer), form)
        self.widen, self.narrow = Linear(width, 8 * width, form), Linear(4 * width, width, form)
        self.scale_attention, self.scale_output = (make_vectors(1, 1, width, form=form) for _ in range(2))

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.norm_attention(hidden)) * self.scale_attention
        inner, gate = self.widen(self.norm_output(hidden)).chunk(2, -1)
        result: Tensor = hidden + self.narrow(inner * nn.functional.gelu(gate)) * self.scale_output
        return result


class PictureDecoder(nn.Module):
    """Words and codes of a picture, blocks, and the loss of each next token.

    A mark of its own begins the text, so that words see 81 places and a picture's tokens 97: sizes that fill no blocks.
    """

    def __init__(self, shape: PictureShape, form: Format) -> None:
        super().__init__()
        self.shape = shape
        self.encode = PictureEncoder(form)
        self.table = make_embedding(shape.pieces, shape.hidden, form)
        self.codes = make_embedding(shape.codes, shape.hidden, form)
        self.order = make_embedding(shape.words + 1, shape.hidden, form)
        self.places = make_vectors(1, shape.side**2, shape.hidden, form=form)
        self.layers = nn.ModuleList([PictureBlock(shape, layer, form) for layer in range(shape.layers)])
        self.norm = make_layer_norm(shape.hidden, form)
        self.say = Linear(shape.hidden, shape.pieces + shape.codes, form)
        other = torch.zeros(shape.words + shape.side**2, shape.pieces + shape.codes, dtype=form.dtype)
        other[: shape.words, shape.pieces :] = HIDDEN
        other[shape.words :, : shape.pieces] = HIDDEN
        self.other: Tensor  # words are said at places of words, codes at those of the picture
        self.register_buffer("other", other, persistent=False)

    def forward(self, words: Tensor, images: Tensor) -> Tensor:
        shape = self.shape
        seen = self.encode(images)
        text = nn.functional.pad(words.long(), (1, 0))
        told = self.table(text) + self.order(torch.arange(shape.words + 1, device=text.device))
        hidden = torch.cat((told, self.codes(seen) + self.places), 1)
        hidden = hidden[:, :-1]
        for layer in self.layers:
            hidden = layer(hidden)
        logits = self.say(self.norm(hidden)) + self.other
        said, drawn = logits[:, : shape.words].flatten(0, 1), logits[:, shape.words :].flatten(0, 1)
        of_words = nn.functional.cross_entropy(said.float(), text[:, 1:].flatten())
        of_picture = nn.functional.cross_entropy(drawn.float(), (seen + shape.pieces).flatten())
        return mark_loss((of_words + PICTURE_WEIGHT * of_picture) / (PICTURE_WEIGHT + 1), "sum")
