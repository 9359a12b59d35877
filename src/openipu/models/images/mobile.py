"""MobileNet v2 and v3: networks for small machines.

In: rows of blocks, and how convolutions are made. Out: a module on images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from openipu.models.images.networks import Make, round_channels
from openipu.models.layers import Linear


@dataclass(frozen=True, slots=True)
class MobileRow:
    """One block."""

    kernel: int
    inside: int  # channels between the two 1 x 1 convolutions
    outputs: int
    stride: int = 1
    excites: bool = False  # channels are scaled by what is in the whole image
    hard: bool = False  # hard swish instead of a rectifier


@dataclass(frozen=True, slots=True)
class MobileShape:
    """Sizes of one network."""

    rows: tuple[MobileRow, ...]
    stem: int
    last: int  # channels of the last convolution
    hidden: int = 0  # of a linear layer before the classifier; 0: none
    hard: bool = False
    classes: int = 1000


class MobileBlock(nn.Module):
    """Widen, filter each channel, scale channels, narrow without an activation."""

    def __init__(self, make: Make, inputs: int, row: MobileRow) -> None:
        super().__init__()
        self.widen = make.convolve(inputs, row.inside, 1) if row.inside != inputs else None
        self.filter = make.convolve(row.inside, row.inside, row.kernel, row.stride, row.inside)
        reduced = round_channels(row.inside / 4)
        self.squeeze = Linear(row.inside, reduced, make.form) if row.excites else None
        self.excite = Linear(reduced, row.inside, make.form) if row.excites else None
        self.narrow = make.convolve(row.inside, row.outputs, 1)
        self.hard, self.keeps_shape = row.hard, row.stride == 1 and inputs == row.outputs

    def forward(self, images: Tensor) -> Tensor:
        hidden = images if self.widen is None else activate(self.widen(images), self.hard)
        hidden = activate(self.filter(hidden), self.hard)
        if self.squeeze is not None and self.excite is not None:
            gate = nn.functional.hardsigmoid(self.excite(self.squeeze(hidden.mean((2, 3))).relu()))
            hidden = hidden * gate[:, :, None, None]
        result: Tensor = self.narrow(hidden)
        return result + images if self.keeps_shape else result


def activate(hidden: Tensor, hard: bool) -> Tensor:
    """Hard swish, or a rectifier that ends at six."""
    return nn.functional.hardswish(hidden) if hard else nn.functional.relu6(hidden)


class MobileNetwork(nn.Module):
    """Sandler et al. 2018 (v2) and Howard et al. 2019 (v3), by their rows."""

    def __init__(self, make: Make, shape: MobileShape) -> None:
        super().__init__()
        self.shape = shape
        self.stem = make.convolve(3, shape.stem, 3, 2)
        layers: list[nn.Module] = []
        inputs = shape.stem
        for row in shape.rows:
            layers.append(MobileBlock(make, inputs, row))
            inputs = row.outputs
        self.layers = nn.Sequential(*layers)
        self.head = make.convolve(inputs, shape.last, 1)
        self.hidden = Linear(shape.last, shape.hidden, make.form) if shape.hidden else None
        self.classify = Linear(shape.hidden or shape.last, shape.classes, make.form)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.layers(activate(self.stem(images), self.shape.hard))
        hidden = activate(self.head(hidden), self.shape.hard).mean((2, 3))
        if self.hidden is not None:
            hidden = nn.functional.hardswish(self.hidden(hidden))
        result: Tensor = self.classify(hidden)
        return result


def _list_second(groups: Sequence[tuple[int, int, int, int]]) -> tuple[MobileRow, ...]:
    """Rows of v2 from its table: expansion, channels, blocks, stride."""
    rows: list[MobileRow] = []
    inputs = 32
    for expansion, channels, count, stride in groups:
        for index in range(count):
            rows.append(MobileRow(3, expansion * inputs, channels, stride if index == 0 else 1))
            inputs = channels
    return tuple(rows)


SECOND = MobileShape(
    _list_second(
        ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    ),
    stem=32,
    last=1280,
)
THIRD = MobileShape(  # "large", table 1 of the paper
    (
        MobileRow(3, 16, 16),
        MobileRow(3, 64, 24, 2),
        MobileRow(3, 72, 24),
        MobileRow(5, 72, 40, 2, excites=True),
        MobileRow(5, 120, 40, excites=True),
        MobileRow(5, 120, 40, excites=True),
        MobileRow(3, 240, 80, 2, hard=True),
        MobileRow(3, 200, 80, hard=True),
        MobileRow(3, 184, 80, hard=True),
        MobileRow(3, 184, 80, hard=True),
        MobileRow(3, 480, 112, excites=True, hard=True),
        MobileRow(3, 672, 112, excites=True, hard=True),
        MobileRow(5, 672, 160, 2, excites=True, hard=True),
        MobileRow(5, 960, 160, excites=True, hard=True),
        MobileRow(5, 960, 160, excites=True, hard=True),
    ),
    stem=16,
    last=960,
    hidden=1280,
    hard=True,
)
