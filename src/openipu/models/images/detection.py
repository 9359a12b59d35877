"""YOLO v3 and v4: boxes of things in images, from three grids of cells at once.

In: a `GridShape` and how convolutions are made. Out: a module on images; in training with the cells, boxes and classes
of the things that are there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openipu.capture import mark_loss
from openipu.models.images.networks import Make
from openipu.models.layers import Convolution

BOX = 4
RARE = -4.0  # the first logit of "something is here": most cells are empty (Lin et al. 2017)


@dataclass(frozen=True, slots=True)
class GridShape:
    """Sizes; as they stand those of both papers."""

    width: int = 32
    blocks: tuple[int, ...] = (1, 2, 8, 8, 4)
    anchors: int = 3  # boxes of a cell
    classes: int = 80
    crossing: bool = False  # version 4: stages in two branches, pooled context, a way down and up again


class Unit(nn.Module):
    """A convolution, a norm, and Mish or a leaky rectifier."""

    def __init__(self, make: Make, inputs: int, outputs: int, size: int, stride: int = 1, *, mish: bool) -> None:
        super().__init__()
        self.convolve, self.mish = make.convolve(inputs, outputs, size, stride), mish

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.convolve(images)
        return nn.functional.mish(hidden) if self.mish else nn.functional.leaky_relu(hidden, 0.1)


class Residual(nn.Module):
    """Narrow, widen, add."""

    def __init__(self, make: Make, channels: int, inside: int, *, mish: bool) -> None:
        super().__init__()
        self.narrow = Unit(make, channels, inside, 1, mish=mish)
        self.widen = Unit(make, inside, channels, 3, mish=mish)

    def forward(self, images: Tensor) -> Tensor:
        result: Tensor = images + self.widen(self.narrow(images))
        return result


class Stage(nn.Module):
    """Half the image, then residual blocks; where `crossing`, on one of two branches (Wang et al. 2019)."""

    def __init__(self, make: Make, inputs: int, outputs: int, blocks: int, *, crossing: bool, first: bool) -> None:
        super().__init__()
        self.halve = Unit(make, inputs, outputs, 3, 2, mish=crossing)
        branch = outputs if first or not crossing else outputs // 2
        inside = outputs // 2
        self.layers = nn.Sequential(*(Residual(make, branch, inside, mish=crossing) for _ in range(blocks)))
        self.crossing = crossing
        if crossing:
            self.left, self.right = (Unit(make, outputs, branch, 1, mish=True) for _ in range(2))
            self.after = Unit(make, branch, branch, 1, mish=True)
            self.join = Unit(make, 2 * branch, outputs, 1, mish=True)

    def forward(self, images: Tensor) -> Tensor:
        halved = self.halve(images)
        if not self.crossing:
            result: Tensor = self.layers(halved)
            return result
        deep = self.after(self.layers(self.right(halved)))
        joined: Tensor = self.join(torch.cat((deep, self.left(halved)), 1))
        return joined


class Backbone(nn.Module):
    """Darknet-53: a stem and five stages; the last three are what boxes are read from."""

    def __init__(self, make: Make, shape: GridShape) -> None:
        super().__init__()
        self.stem = Unit(make, 3, shape.width, 3, mish=shape.crossing)
        self.layers = nn.ModuleList(
            [
                Stage(
                    make,
                    shape.width * 2**level,
                    shape.width * 2 ** (level + 1),
                    count,
                    crossing=shape.crossing,
                    first=level == 0,
                )
                for level, count in enumerate(shape.blocks)
            ]
        )

    def forward(self, images: Tensor) -> list[Tensor]:
        hidden = self.stem(images)
        found: list[Tensor] = []
        for layer in self.layers:
            hidden = layer(hidden)
            found.append(hidden)
        return found[-3:]


def make_chain(make: Make, inputs: int, outputs: int, count: int) -> nn.Sequential:
    """1 x 1 and 3 x 3 convolutions in turn, narrow at both ends."""
    layers: list[nn.Module] = []
    for index in range(count):
        wide = index % 2 == 1
        layers.append(Unit(make, inputs, 2 * outputs if wide else outputs, 3 if wide else 1, mish=False))
        inputs = 2 * outputs if wide else outputs
    return nn.Sequential(*layers)


class GridDetector(nn.Module):
    """Redmon and Farhadi 2018 (v3) and Bochkovskiy et al. 2020 (v4): for each cell and anchor, is something there?"""

    def __init__(self, make: Make, shape: GridShape) -> None:
        super().__init__()
        self.shape = shape
        self.backbone = Backbone(make, shape)
        large, middle, small = (shape.width * factor for factor in (8, 16, 32))  # channels of the three grids
        if shape.crossing:
            self.before = make_chain(make, small, small // 2, 3)
            self.deep = make_chain(make, 2 * small, small // 2, 3)
            self.side_middle = Unit(make, middle, middle // 2, 1, mish=False)
            self.side_large = Unit(make, large, large // 2, 1, mish=False)
            self.down_middle = Unit(make, large // 2, middle // 2, 3, 2, mish=False)
            self.down_small = Unit(make, middle // 2, small // 2, 3, 2, mish=False)
            self.again_middle = make_chain(make, middle, middle // 2, 5)
            self.again_small = make_chain(make, small, small // 2, 5)
        else:
            self.deep = make_chain(make, small, small // 2, 5)
        self.raise_middle = Unit(make, small // 2, middle // 2, 1, mish=False)
        self.raise_large = Unit(make, middle // 2, large // 2, 1, mish=False)
        self.middle = make_chain(make, middle // 2 + (middle // 2 if shape.crossing else middle), middle // 2, 5)
        self.large = make_chain(make, large // 2 + (large // 2 if shape.crossing else large), large // 2, 5)
        self.heads = nn.ModuleList([self._make_head(make, size) for size in (large, middle, small)])

    def _make_head(self, make: Make, size: int) -> nn.Module:
        answer = Convolution(size, self.shape.anchors * self._each, 1, make.form)
        assert answer.bias is not None
        with torch.no_grad():
            answer.bias.view(self.shape.anchors, -1)[:, 0].fill_(RARE)
        return nn.Sequential(Unit(make, size // 2, size, 3, mish=False), answer)

    @property
    def _each(self) -> int:
        """Numbers that a cell and an anchor have."""
        return 1 + BOX + self.shape.classes

    def forward(
        self,
        images: Tensor,
        cells: Tensor | None = None,
        boxes: Tensor | None = None,
        kinds: Tensor | None = None,
    ) -> Tensor:
        """Answers are [batch, cells of all grids, 1 + 4 + classes], as logits and offsets; else the loss of things
        that lie in `cells`, with `boxes` as fractions and logarithms, and `kinds`."""
        answers = torch.cat([self._lay_out(grid) for grid in self._look(images)], 1)
        if cells is None or boxes is None or kinds is None:
            return answers
        there = answers.gather(1, cells[:, :, None].expand(-1, -1, answers.shape[-1])).float()
        wanted = torch.zeros_like(answers[:, :, 0], dtype=torch.float32).scatter(1, cells, 1.0)
        something = nn.functional.binary_cross_entropy_with_logits(answers[:, :, 0].float(), wanted, reduction="none")
        place = nn.functional.binary_cross_entropy_with_logits(there[:, :, 1:3], boxes[:, :, :2], reduction="none")
        size = (there[:, :, 3:5] - boxes[:, :, 2:]).square()
        kind = nn.functional.cross_entropy(there[:, :, 5:].flatten(0, 1), kinds.flatten(), reduction="none")
        count = cells.shape[0] * cells.shape[1]
        return mark_loss((something.sum() + place.sum() + size.sum() + kind.sum()) / count, "sum")

    def _look(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        large, middle, small = self.backbone(images)
        if self.shape.crossing:
            small = self.before(small)
            pools = [nn.functional.max_pool2d(small, size, 1, size // 2) for size in (13, 9, 5)]
            deep = self.deep(torch.cat((*pools, small), 1))
            middle, large = self.side_middle(middle), self.side_large(large)
        else:
            deep = self.deep(small)
        middle = self.middle(torch.cat((_enlarge(self.raise_middle(deep)), middle), 1))
        large = self.large(torch.cat((_enlarge(self.raise_large(middle)), large), 1))
        if self.shape.crossing:
            middle = self.again_middle(torch.cat((self.down_middle(large), middle), 1))
            deep = self.again_small(torch.cat((self.down_small(middle), deep), 1))
        first, second, third = (head(grid) for head, grid in zip(self.heads, (large, middle, deep), strict=True))
        return first, second, third

    def _lay_out(self, grid: Tensor) -> Tensor:
        """Cells of a grid as rows, anchor by anchor."""
        batch, _, rows, columns = grid.shape
        return grid.view(batch, self.shape.anchors, self._each, rows, columns).permute(0, 1, 3, 4, 2).flatten(1, 3)


def _enlarge(grid: Tensor) -> Tensor:
    return nn.functional.interpolate(grid, scale_factor=2.0, mode="nearest")
