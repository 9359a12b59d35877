"""Speech models: Conformer encoders and the RNN transducer.

In: sizes and a `Format`. Out: modules on frames of features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openipu.capture import mark_loss
from openipu.models.layers import Convolution, Format, Linear, make_layer_norm, make_waves


@dataclass(frozen=True, slots=True)
class ConformerShape:
    """Sizes of Gulati et al. 2020."""

    layers: int
    hidden: int
    heads: int
    features: int = 80
    kernel: int = 31
    feed_forward: int = 4  # how many times as wide the feed-forward parts are inside
    subsampled: bool = True  # two strided convolutions in front, so that a quarter of the frames is left
    most_frames: int = 512  # after them
    dropout: float = 0.0  # of each part's result, and inside of the feed-forward ones
    folded: bool = False  # as exported: the batch norm of Gulati et al. is part of its filter, places are constants


class ConvolutionModule(nn.Module):
    """Pointwise, gated, a filter for each channel, pointwise."""

    def __init__(self, shape: ConformerShape, form: Format) -> None:
        super().__init__()
        width = shape.hidden
        self.norm = make_layer_norm(width, form)
        self.norm_filter = nn.Identity() if shape.folded else make_layer_norm(width, form)
        self.widen, self.narrow = Linear(width, 2 * width, form), Linear(width, width, form)
        self.filter = Convolution(width, width, shape.kernel, form, groups=width, dims=1)

    def forward(self, hidden: Tensor) -> Tensor:
        gated = nn.functional.glu(self.widen(self.norm(hidden)), -1)
        filtered = self.filter(gated.transpose(1, 2)).transpose(1, 2)
        result: Tensor = self.narrow(nn.functional.silu(self.norm_filter(filtered)))
        return result


class RelativeAttention(nn.Module):
    """Heads that also compare with relative positions (Dai et al. 2019)."""

    def __init__(self, shape: ConformerShape, form: Format) -> None:
        super().__init__()
        self.heads = shape.heads
        width = shape.hidden
        self.norm = make_layer_norm(width, form)
        self.qkv = Linear(width, 3 * width, form)
        self.places = nn.Identity() if shape.folded else Linear(width, width, form, bias=False)
        self.output = Linear(width, width, form)

    def forward(self, hidden: Tensor, places: Tensor, heard: Tensor | None = None) -> Tensor:
        """`heard` is one where there is sound, zero where an utterance was filled up."""
        batch, length, width = hidden.shape
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm(hidden)).chunk(3, -1)
        )
        near = self.places(places).view(length, self.heads, width // self.heads).transpose(0, 1)
        scores = query @ key.transpose(-1, -2) + query @ near.transpose(-1, -2)
        scores = scores * (width // self.heads) ** -0.5
        if heard is None:
            weights = scores.softmax(-1)
        else:
            weights = (scores * heard + (heard - 1.0) * 1000.0).softmax(-1) * heard
        result: Tensor = self.output((weights @ value).transpose(1, 2).reshape(batch, length, width))
        return result


class FeedForward(nn.Module):
    """Wider inside, added by half."""

    def __init__(self, width: int, times: int, form: Format, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm = make_layer_norm(width, form)
        self.widen, self.narrow = Linear(width, times * width, form), Linear(times * width, width, form)

    def forward(self, hidden: Tensor) -> Tensor:
        inner = nn.functional.silu(self.widen(self.norm(hidden)))
        result: Tensor = 0.5 * self.narrow(nn.functional.dropout(inner, self.dropout, self.training))
        return result


class ConformerBlock(nn.Module):
    """Half a feed-forward part, attention, convolution, the other half."""

    def __init__(self, shape: ConformerShape, form: Format) -> None:
        super().__init__()
        self.dropout = shape.dropout
        self.before = FeedForward(shape.hidden, shape.feed_forward, form, shape.dropout)
        self.after = FeedForward(shape.hidden, shape.feed_forward, form, shape.dropout)
        self.attention, self.convolution = RelativeAttention(shape, form), ConvolutionModule(shape, form)
        self.norm = make_layer_norm(shape.hidden, form)

    def forward(self, hidden: Tensor, places: Tensor, heard: Tensor | None = None) -> Tensor:
        hidden = hidden + self._drop(self.before(hidden))
        hidden = hidden + self._drop(self.attention(hidden, places, heard))
        hidden = hidden + self._drop(self.convolution(hidden))
        result: Tensor = self.norm(hidden + self._drop(self.after(hidden)))
        return result

    def _drop(self, hidden: Tensor) -> Tensor:
        return nn.functional.dropout(hidden, self.dropout, self.training)


class Conformer(nn.Module):
    """An encoder, with a classifier of sounds in training, and a writer of the text beside it."""

    def __init__(
        self, shape: ConformerShape, form: Format, *, classes: int = 0, writer: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.shape = shape
        width = shape.hidden
        self.first, self.second = Convolution(1, width, 3, form, stride=2), Convolution(width, width, 3, form, stride=2)
        self.enter = Linear(width * -(-shape.features // 4) if shape.subsampled else shape.features, width, form)
        self.layers = nn.ModuleList([ConformerBlock(shape, form) for _ in range(shape.layers)])
        self.classify = Linear(width, classes, form) if classes else None
        self.writer = writer
        self.waves: Tensor
        self.register_buffer("waves", make_waves(shape.most_frames, width, form), persistent=False)

    def forward(
        self,
        frames: Tensor,
        labels: Tensor | None = None,
        words: Tensor | None = None,
        heard_frames: Tensor | None = None,
    ) -> Tensor:
        hidden = frames
        if self.shape.subsampled:
            image = self.second(self.first(frames[:, None]).relu()).relu()
            hidden = image.transpose(1, 2).flatten(2)
        hidden = self.enter(hidden)
        places = self.waves[: hidden.shape[1]]
        heard_mask = None if heard_frames is None else heard_frames[:, None, None, :]
        for layer in self.layers:
            hidden = layer(hidden, places, heard_mask)
        if self.classify is None:
            result: Tensor = hidden
            return result
        logits: Tensor = self.classify(hidden)
        if labels is None:
            return logits
        heard = nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        if self.writer is None or words is None:
            return heard
        written: Tensor = self.writer(words, hidden)
        return mark_loss(0.3 * heard + 0.7 * written, "mean")


class Transducer(nn.Module):
    """RNN-T as in the MLPerf benchmark: LSTM encoder, LSTM predictor, and a joint network over all pairs."""

    def __init__(
        self,
        form: Format,
        *,
        features: int = 240,
        hidden: int = 1024,
        joint: int = 512,
        classes: int = 1024,
        layers: tuple[int, int, int] = (2, 3, 2),  # before and after every second frame is joined to the one before it
    ) -> None:
        super().__init__()
        dtype = form.dtype
        before, after, predict = layers
        self.before = nn.LSTM(features, hidden, before, batch_first=True, dtype=dtype)
        self.after = nn.LSTM(2 * hidden, hidden, after, batch_first=True, dtype=dtype)
        self.words = nn.Embedding(classes, joint, dtype=dtype)
        self.predict = nn.LSTM(joint, joint, predict, batch_first=True, dtype=dtype)
        self.join_frames, self.join_words = Linear(hidden, joint, form), Linear(joint, joint, form)
        self.classify = Linear(joint, classes, form)

    def join(self, frames: Tensor, words: Tensor) -> Tensor:
        """Logits of every pair of a frame and a number of words that were spoken before: [batch, frames, words, …]."""
        batch, length, _ = frames.shape
        hidden = self.before(frames)[0]
        hidden = self.after(hidden.reshape(batch, length // 2, -1))[0]
        spoken = self.predict(self.words(words))[0]
        joined = (self.join_frames(hidden)[:, :, None] + self.join_words(spoken)[:, None]).relu()
        logits: Tensor = self.classify(joined)
        return logits

    def forward(self, frames: Tensor, words: Tensor) -> Tensor:
        # Every pair's probabilities are needed, as in the real loss; the sum over ways through them is small beside.
        return mark_loss(-self.join(frames, words).log_softmax(-1)[..., 0], "mean")


def sum_alignments(logits: Tensor, words: Tensor) -> Tensor:
    """The loss of Graves 2012: minus the logarithm of the probability of `words`, over all ways to align them.

    Class 0 is "next frame". `logits` is [batch, frames, words + 1, classes]. One op chain for each frame and word:
    meant for short utterances.
    """
    chances = logits.float().log_softmax(-1)
    stay = chances[..., 0]
    speak = chances[:, :, :-1].gather(-1, words[:, None, :, None].expand(-1, logits.shape[1], -1, 1))[..., 0]
    frames, count = logits.shape[1], words.shape[1]
    columns: list[Tensor] = []  # of the frame before: how likely so many words were spoken by then
    for frame in range(frames):
        row: list[Tensor] = []
        for spoken in range(count + 1):
            ways = []
            if frame > 0:
                ways.append(columns[spoken] + stay[:, frame - 1, spoken])
            if spoken > 0:
                ways.append(row[spoken - 1] + speak[:, frame, spoken - 1])
            row.append(torch.zeros_like(stay[:, 0, 0]) if not ways else torch.stack(ways).logsumexp(0))
        columns = row
    return mark_loss(-(columns[count] + stay[:, -1, count]), "mean")
