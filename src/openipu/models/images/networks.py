"""Convolutional networks: ResNet, ResNeXt, EfficientNet, U-Net and a tutorial's small network.

In: sizes, whether to train, and a `Format`. Out: modules on images. For inference norms are part of the convolutions,
as every exporter of inference graphs folds them; for training they are norms of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openipu.models.layers import Convolution, Format, Linear


@dataclass(frozen=True, slots=True)
class Make:
    """How convolutions are made: their format, and what follows them in training."""

    form: Format
    training: bool
    norm_groups: int = 0  # group norm with so many groups; 0: batch norm

    def convolve(self, inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Module:
        """A convolution and its norm."""
        if not self.training:
            return Convolution(inputs, outputs, size, self.form, stride=stride, groups=groups)
        convolution = Convolution(inputs, outputs, size, self.form, stride=stride, groups=groups, bias=False)
        if self.norm_groups:
            count = math.gcd(self.norm_groups, outputs)
            return nn.Sequential(convolution, nn.GroupNorm(count, outputs, dtype=self.form.dtype))
        return nn.Sequential(convolution, nn.BatchNorm2d(outputs, dtype=self.form.dtype))


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions around a shortcut."""

    def __init__(self, make: Make, inputs: int, width: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.reduce = make.convolve(inputs, width, 1)
        self.transform = make.convolve(width, width, 3, stride, groups)
        self.expand = make.convolve(width, outputs, 1)
        changes = stride != 1 or inputs != outputs
        self.shortcut = make.convolve(inputs, outputs, 1, stride) if changes else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.reduce(images).relu_()
        hidden = self.transform(hidden).relu_()
        result: Tensor = self.expand(hidden).add_(self.shortcut(images)).relu_()
        return result


class ResidualNetwork(nn.Module):
    """He et al. 2015, version 1.5: 3, 4, 6, 3 blocks make ResNet-50. Groups make ResNeXt (Xie et al. 2016)."""

    def __init__(
        self,
        make: Make,
        blocks: Sequence[int],
        *,
        groups: int = 1,
        group_width: int = 64,
        edge_form: Format | None = None,
        width: int = 64,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        edge = Make(edge_form or make.form, make.training, make.norm_groups)  # the first and the last layer
        self.stem = edge.convolve(3, width, 7, 2)
        self.pool = nn.MaxPool2d(3, 2, 1)
        layers: list[nn.Module] = []
        inputs = width
        for level, count in enumerate(blocks):
            inside = groups * group_width * 2**level
            outputs = 4 * width * 2**level
            for index in range(count):
                stride = 2 if level > 0 and index == 0 else 1
                layers.append(Bottleneck(make, inputs, inside, outputs, stride, groups))
                inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.classify = Linear(inputs, classes, edge.form)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.layers(self.pool(self.stem(images).relu_()))
        result: Tensor = self.classify(hidden.mean((2, 3)))
        return result


class SqueezeExcite(nn.Module):
    """Scales channels by what is in the whole image."""

    def __init__(self, form: Format, channels: int, reduced: int) -> None:
        super().__init__()
        self.squeeze, self.excite = Linear(channels, reduced, form), Linear(reduced, channels, form)

    def forward(self, images: Tensor) -> Tensor:
        gate = self.excite(nn.functional.silu(self.squeeze(images.mean((2, 3))))).sigmoid()
        result: Tensor = images * gate[:, :, None, None]
        return result


class InvertedBottleneck(nn.Module):
    """Expand, filter each group of channels, squeeze and excite, project (Tan and Le 2019)."""

    def __init__(self, make: Make, inputs: int, outputs: int, ratio: int, size: int, stride: int, width: int) -> None:
        super().__init__()
        hidden = inputs * ratio
        self.expand = make.convolve(inputs, hidden, 1) if ratio > 1 else None
        groups = max(1, hidden // width)
        self.filter = make.convolve(hidden, hidden, size, stride, groups)
        self.excite = SqueezeExcite(make.form, hidden, max(1, inputs // 4))
        self.project = make.convolve(hidden, outputs, 1)
        self.keeps_shape = stride == 1 and inputs == outputs

    def forward(self, images: Tensor) -> Tensor:
        hidden = images if self.expand is None else nn.functional.silu(self.expand(images))
        hidden = self.excite(nn.functional.silu(self.filter(hidden)))
        result: Tensor = self.project(hidden)
        return result + images if self.keeps_shape else result


def round_channels(channels: float) -> int:
    """To eights, as the papers do it: never more than a tenth below."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


# Tan and Le 2019, table 1: expansion, channels, blocks, stride, kernel.
EFFICIENT_STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


class EfficientNetwork(nn.Module):
    """EfficientNet; with `group_width` 16 and expansion 4 the vendor's "G16" (Masters et al. 2021)."""

    def __init__(
        self,
        make: Make,
        *,
        width: float,
        depth: float,
        group_width: int = 1,
        expansion: int = 6,
        classes: int = 1000,
        stages: Sequence[tuple[int, int, int, int, int]] = EFFICIENT_STAGES,
        last: int = 1280,
    ) -> None:
        super().__init__()

        def scale(channels: int) -> int:
            return round_channels(channels * width)

        self.stem = make.convolve(3, scale(32), 3, 2)
        layers: list[nn.Module] = []
        inputs = scale(32)
        for ratio, channels, count, stride, size in stages:
            outputs = scale(channels)
            for index in range(math.ceil(count * depth)):
                first = stride if index == 0 else 1
                own = min(ratio, expansion)
                layers.append(InvertedBottleneck(make, inputs, outputs, own, size, first, group_width))
                inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.head = make.convolve(inputs, scale(last), 1)
        self.classify = Linear(scale(last), classes, make.form)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.layers(nn.functional.silu(self.stem(images)))
        result: Tensor = self.classify(nn.functional.silu(self.head(hidden)).mean((2, 3)))
        return result


class Unet(nn.Module):
    """Ronneberger et al. 2015: levels down and up with shortcuts; without padding, an image loses its edge."""

    def __init__(
        self, form: Format, *, width: int = 64, classes: int = 2, levels: int = 5, padded: bool = False
    ) -> None:
        super().__init__()
        edge = 1 if padded else 0

        def pair(inputs: int, outputs: int) -> nn.Sequential:
            first = Convolution(inputs, outputs, 3, form, padding=edge)
            return nn.Sequential(first, nn.ReLU(), Convolution(outputs, outputs, 3, form, padding=edge), nn.ReLU())

        sizes = [width * 2**level for level in range(levels)]
        self.down = nn.ModuleList(
            [pair(1 if level == 0 else sizes[level - 1], sizes[level]) for level in range(levels)]
        )
        self.raise_ = nn.ModuleList(
            [nn.ConvTranspose2d(sizes[level + 1], sizes[level], 2, 2, dtype=form.dtype) for level in range(levels - 1)]
        )
        self.up = nn.ModuleList([pair(sizes[level + 1], sizes[level]) for level in range(levels - 1)])
        self.classify = Convolution(width, classes, 1, form)

    def forward(self, images: Tensor) -> Tensor:
        kept: list[Tensor] = []
        hidden = images
        for level, layer in enumerate(self.down):
            hidden = layer(hidden if level == 0 else nn.functional.max_pool2d(hidden, 2))
            kept.append(hidden)
        for level in reversed(range(len(self.up))):
            raised = self.raise_[level](hidden)
            edge = (kept[level].shape[-1] - raised.shape[-1]) // 2
            cut = kept[level][:, :, edge : edge + raised.shape[-2], edge : edge + raised.shape[-1]]
            hidden = self.up[level](torch.cat((raised, cut), 1))
        result: Tensor = self.classify(hidden)
        return result


class SmallNetwork(nn.Module):
    """The vendor's tutorial network for 28 x 28 images: two convolutions, two linear layers."""

    def __init__(self, form: Format, classes: int = 10) -> None:
        super().__init__()
        self.first, self.second = Convolution(1, 5, 3, form), Convolution(5, 12, 5, form, padding=0)
        self.norm = nn.GroupNorm(3, 12, dtype=form.dtype)
        self.hidden, self.classify = Linear(12 * 5 * 5, 100, form), Linear(100, classes, form)

    def forward(self, images: Tensor) -> Tensor:
        hidden = nn.functional.max_pool2d(self.first(images), 2).relu()
        hidden = self.norm(nn.functional.max_pool2d(self.second(hidden), 2).relu())
        result: Tensor = self.classify(self.hidden(hidden.flatten(1)).relu())
        return result
