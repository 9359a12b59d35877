"""An encoder of pictures into tokens of a codebook: VQGAN's (Esser et al. 2021), which is not trained any more.

In: images of 256 x 256 and a `Format`. Out: a module that gives 16 x 16 tokens of 1,024 for each.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from openipu.models.layers import Convolution, Format, make_vectors

WIDTH, MULTIPLES, BLOCKS, DEPTH, CODES = 128, (1, 1, 2, 2, 4), 2, 256, 1024
_NORM_GROUPS = 32


def _make_norm(channels: int, form: Format) -> nn.GroupNorm:
    return nn.GroupNorm(_NORM_GROUPS, channels, dtype=form.dtype)


class ResidualBlock(nn.Module):
    """Two norms and convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, form: Format) -> None:
        super().__init__()
        self.norm_first, self.norm_second = _make_norm(inputs, form), _make_norm(outputs, form)
        self.first, self.second = Convolution(inputs, outputs, 3, form), Convolution(outputs, outputs, 3, form)
        self.shortcut = Convolution(inputs, outputs, 1, form) if inputs != outputs else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.first(nn.functional.silu(self.norm_first(images)))
        hidden = self.second(nn.functional.silu(self.norm_second(hidden)))
        result: Tensor = self.shortcut(images) + hidden
        return result


class PixelAttention(nn.Module):
    """Every place of an image sees every other."""

    def __init__(self, channels: int, form: Format) -> None:
        super().__init__()
        self.norm = _make_norm(channels, form)
        self.query, self.key, self.value, self.output = (Convolution(channels, channels, 1, form) for _ in range(4))

    def forward(self, images: Tensor) -> Tensor:
        normed = self.norm(images)
        query, key, value = (part(normed).flatten(2) for part in (self.query, self.key, self.value))
        weights = (query.transpose(1, 2) @ key * query.shape[1] ** -0.5).softmax(-1)
        mixed = (value @ weights.transpose(1, 2)).view_as(images)
        result: Tensor = images + self.output(mixed)
        return result


class PictureEncoder(nn.Module):
    """Images into the nearest entries of a codebook."""

    def __init__(self, form: Format) -> None:
        super().__init__()
        parts: list[nn.Module] = [Convolution(3, WIDTH, 3, form)]
        inputs = WIDTH
        for level, multiple in enumerate(MULTIPLES):
            last = level == len(MULTIPLES) - 1
            for _ in range(BLOCKS):
                parts.append(ResidualBlock(inputs, WIDTH * multiple, form))
                inputs = WIDTH * multiple
                parts += [PixelAttention(inputs, form)] if last else []
            parts += [] if last else [Convolution(inputs, inputs, 3, form, stride=2)]
        parts += [
            ResidualBlock(inputs, inputs, form),
            PixelAttention(inputs, form),
            ResidualBlock(inputs, inputs, form),
        ]
        parts += [_make_norm(inputs, form), nn.SiLU(), Convolution(inputs, DEPTH, 3, form)]
        self.parts = nn.Sequential(*parts, Convolution(DEPTH, DEPTH, 1, form))
        self.codes = make_vectors(CODES, DEPTH, form=form)
        self.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        found = self.parts(images).flatten(2).transpose(1, 2)
        distances = self.codes.square().sum(-1) - 2.0 * nn.functional.linear(found, self.codes)
        return torch.argmin(distances, -1)
