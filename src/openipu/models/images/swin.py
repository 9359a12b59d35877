"""Swin transformers (Liu et al. 2021): attention within windows that shift from layer to layer.

In: sizes and a `Format`. Out: a module on images. Windows are cut by reshaping and joined again, which on an IPU is
data that moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openipu.models.layers import Convolution, Format, Linear, make_layer_norm
from openipu.models.text.encoders import BLOCK, Gelu, activate, fill_up


@dataclass(frozen=True, slots=True)
class SwinShape:
    """Sizes: `width` is that of the first level and doubles at each of the next."""

    width: int
    depths: tuple[int, ...]
    heads: tuple[int, ...]
    window: int = 7
    pixels: int = 224
    gelu: Gelu = Gelu.FUSED
    padded_attention: bool = False  # windows are filled up to whole blocks of points for their products


class WindowBlock(nn.Module):
    """Attention within windows and a feed-forward part."""

    apart: Tensor

    def __init__(
        self, width: int, heads: int, window: int, side: int, shifted: bool, form: Format, shape: SwinShape
    ) -> None:
        super().__init__()
        self.gelu, self.padded = shape.gelu, shape.padded_attention
        self.heads, self.window, self.side = heads, min(window, side), side
        self.shift = self.window // 2 if shifted and side > window else 0
        self.norm_attention, self.norm_output = make_layer_norm(width, form), make_layer_norm(width, form)
        self.qkv, self.output = Linear(width, 3 * width, form), Linear(width, width, form)
        self.widen, self.narrow = Linear(width, 4 * width, form), Linear(4 * width, width, form)
        points = self.window**2 + (-(self.window**2) % BLOCK if self.padded else 0)  # biases are filled up beforehand
        self.bias = nn.Parameter(torch.empty(1, heads, points, points, dtype=form.dtype))
        if self.shift:  # windows at the border hold parts of two sides, which must not see each other
            self.register_buffer("apart", torch.empty((side // self.window) ** 2, 1, points, points, dtype=form.dtype))

    def forward(self, hidden: Tensor) -> Tensor:
        batch, points, width = hidden.shape
        side, window = self.side, self.window
        image = self.norm_attention(hidden).view(batch, side, side, width)
        if self.shift:
            image = torch.roll(image, (-self.shift, -self.shift), (1, 2))
        count = side // window
        windows = image.view(batch, count, window, count, window, width).transpose(2, 3)
        mixed = self._attend(windows.reshape(batch * count**2, window**2, width))
        image = mixed.view(batch, count, count, window, window, width).transpose(2, 3).reshape(batch, side, side, width)
        if self.shift:
            image = torch.roll(image, (self.shift, self.shift), (1, 2))
        hidden = hidden + image.view(batch, points, width)
        result: Tensor = hidden + self.narrow(activate(self.widen(self.norm_output(hidden)), self.gelu))
        return result

    def _attend(self, windows: Tensor) -> Tensor:
        count, points, width = windows.shape
        query, key, value = (
            part.view(count, points, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(windows).chunk(3, -1)
        )
        if self.padded:
            query, key, value = fill_up(query, key, value)
        scores = query @ (key * (width // self.heads) ** -0.5).transpose(-1, -2) + self.bias
        if self.shift:
            grouped = scores.view(-1, self.apart.shape[0], *scores.shape[1:]) + self.apart
            scores = grouped.view(scores.shape)
        mixed = (scores.softmax(-1) @ value)[..., :points, :]
        result: Tensor = self.output(mixed.transpose(1, 2).reshape(count, points, width))
        return result


class MergePatches(nn.Module):
    """Four neighbours become one point of twice the width."""

    def __init__(self, width: int, side: int, form: Format) -> None:
        super().__init__()
        self.side = side
        self.norm, self.reduce = make_layer_norm(4 * width, form), Linear(4 * width, 2 * width, form, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        batch, points, width = hidden.shape
        half = self.side // 2
        image = hidden.view(batch, half, 2, half, 2, width).permute(0, 1, 3, 2, 4, 5)
        result: Tensor = self.reduce(self.norm(image.reshape(batch, points // 4, 4 * width)))
        return result


class SwinTransformer(nn.Module):
    """Patches, levels of window blocks, a classifier."""

    def __init__(self, shape: SwinShape, form: Format, classes: int = 1000) -> None:
        super().__init__()
        self.patches = Convolution(3, shape.width, 4, form, stride=4, padding=0)
        self.norm = make_layer_norm(shape.width, form)
        layers: list[nn.Module] = []
        side, width = shape.pixels // 4, shape.width
        for level, (depth, heads) in enumerate(zip(shape.depths, shape.heads, strict=True)):
            if level:
                layers.append(MergePatches(width, side, form))
                side, width = side // 2, 2 * width
            layers += [
                WindowBlock(width, heads, shape.window, side, index % 2 == 1, form, shape) for index in range(depth)
            ]
        self.layers = nn.Sequential(*layers)
        self.norm_output, self.classify = make_layer_norm(width, form), Linear(width, classes, form)

    def forward(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        hidden = self.norm(self.patches(images).flatten(2).transpose(1, 2))
        logits: Tensor = self.classify(self.norm_output(self.layers(hidden)).mean(1))
        return logits if labels is None else nn.functional.cross_entropy(logits.float(), labels)
