"""Speech models: Conformer encoders and the RNN transducer.

In: sizes and a `Format`. Out: modules on frames of features.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from openipu.capture import mark_loss
from openipu.validation.workloads.layers import Convolution, Format, Linear, make_layer_norm


@dataclass(frozen=True, slots=True)
class ConformerShape:
    """Sizes of Gulati et al. 2020."""

    layers: int
    hidden: int
    heads: int
    features: int = 80
    kernel: int = 31
    subsampled: bool = True  # two strided convolutions in front, so that a quarter of the frames is left


class ConvolutionModule(nn.Module):
    """Pointwise, gated, a filter for each channel, pointwise."""

    def __init__(self, shape: ConformerShape, form: Format) -> None:
        super().__init__()
        width = shape.hidden
        self.norm, self.norm_filter = make_layer_norm(width, form), make_layer_norm(width, form)
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
        self.qkv, self.places = Linear(width, 3 * width, form), Linear(width, width, form, bias=False)
        self.output = Linear(width, width, form)

    def forward(self, hidden: Tensor, places: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm(hidden)).chunk(3, -1)
        )
        near = self.places(places).view(length, self.heads, width // self.heads).transpose(0, 1)
        scores = query @ key.transpose(-1, -2) + query @ near.transpose(-1, -2)
        weights = (scores * (width // self.heads) ** -0.5).softmax(-1)
        result: Tensor = self.output((weights @ value).transpose(1, 2).reshape(batch, length, width))
        return result


class FeedForward(nn.Module):
    """Four times as wide inside, added by half."""

    def __init__(self, width: int, form: Format) -> None:
        super().__init__()
        self.norm = make_layer_norm(width, form)
        self.widen, self.narrow = Linear(width, 4 * width, form), Linear(4 * width, width, form)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = 0.5 * self.narrow(nn.functional.silu(self.widen(self.norm(hidden))))
        return result


class ConformerBlock(nn.Module):
    """Half a feed-forward part, attention, convolution, the other half."""

    def __init__(self, shape: ConformerShape, form: Format) -> None:
        super().__init__()
        self.before, self.after = FeedForward(shape.hidden, form), FeedForward(shape.hidden, form)
        self.attention, self.convolution = RelativeAttention(shape, form), ConvolutionModule(shape, form)
        self.norm = make_layer_norm(shape.hidden, form)

    def forward(self, hidden: Tensor, places: Tensor) -> Tensor:
        hidden = hidden + self.before(hidden)
        hidden = hidden + self.attention(hidden, places)
        hidden = hidden + self.convolution(hidden)
        result: Tensor = self.norm(hidden + self.after(hidden))
        return result


class Conformer(nn.Module):
    """An encoder, with a classifier of sounds in training."""

    def __init__(self, shape: ConformerShape, form: Format, *, classes: int = 0) -> None:
        super().__init__()
        self.shape = shape
        width = shape.hidden
        self.first, self.second = Convolution(1, width, 3, form, stride=2), Convolution(width, width, 3, form, stride=2)
        self.enter = Linear(width * -(-shape.features // 4) if shape.subsampled else shape.features, width, form)
        self.layers = nn.ModuleList([ConformerBlock(shape, form) for _ in range(shape.layers)])
        self.classify = Linear(width, classes, form) if classes else None

    def forward(self, frames: Tensor, labels: Tensor | None = None) -> Tensor:
        hidden = frames
        if self.shape.subsampled:
            image = self.second(self.first(frames[:, None]).relu()).relu()
            hidden = image.transpose(1, 2).flatten(2)
        hidden = self.enter(hidden)
        places = hidden.new_ones(hidden.shape[1], self.shape.hidden)
        for layer in self.layers:
            hidden = layer(hidden, places)
        if self.classify is None:
            result: Tensor = hidden
            return result
        logits: Tensor = self.classify(hidden)
        return logits if labels is None else nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


class Transducer(nn.Module):
    """RNN-T as in the MLPerf benchmark: LSTM encoder, LSTM predictor, and a joint network over all pairs."""

    def __init__(self, form: Format, *, hidden: int = 1024, classes: int = 1024) -> None:
        super().__init__()
        dtype = form.dtype
        self.before = nn.LSTM(240, hidden, 2, batch_first=True, dtype=dtype)
        self.after = nn.LSTM(2 * hidden, hidden, 3, batch_first=True, dtype=dtype)
        self.words = nn.Embedding(classes, 512, dtype=dtype)
        self.predict = nn.LSTM(512, 512, 2, batch_first=True, dtype=dtype)
        self.join_frames, self.join_words = Linear(hidden, 512, form), Linear(512, 512, form)
        self.classify = Linear(512, classes, form)

    def forward(self, frames: Tensor, words: Tensor) -> Tensor:
        batch, length, _ = frames.shape
        hidden = self.before(frames)[0]
        hidden = self.after(hidden.reshape(batch, length // 2, -1))[0]
        spoken = self.predict(self.words(words))[0]
        joined = (self.join_frames(hidden)[:, :, None] + self.join_words(spoken)[:, None]).relu()
        logits = self.classify(joined)
        # Every pair's probabilities are needed, as in the real loss; the sum over ways through them is small beside.
        return mark_loss(-logits.log_softmax(-1)[..., 0], "mean")
