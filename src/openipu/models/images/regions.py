"""Faster R-CNN (Ren et al. 2015): where something may be, then what it is.

In: a `RegionShape` and how convolutions are made. Out: a module on images; in training with the things that are there.
Everything has a fixed size: the best proposals of an image are as many for each, and regions are cut out by products
with weights of a linear interpolation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openipu.capture import mark_loss
from openipu.models.images.networks import Bottleneck, Make
from openipu.models.layers import Convolution, Linear

ENOUGH = 0.5  # intersection over union from which on a region holds a thing


@dataclass(frozen=True, slots=True)
class RegionShape:
    """Sizes; as they stand a ResNet-50 up to its fourth group, and its fifth as the head."""

    pixels: int = 608
    width: int = 64
    blocks: tuple[int, ...] = (3, 4, 6)
    head: int = 3  # blocks of the head
    anchors: tuple[float, ...] = (64.0, 128.0, 256.0, 384.0, 512.0)  # sides of squares, in pixels
    proposals: int = 128
    side: int = 7  # cells of a region
    classes: int = 80

    @property
    def stride(self) -> int:
        """Pixels of a cell: the stem and the pool halve the image, and every group but the first."""
        return int(4 * 2 ** (len(self.blocks) - 1))


class RegionDetector(nn.Module):
    """A backbone, proposals, and a head that looks at each of them."""

    def __init__(self, make: Make, shape: RegionShape) -> None:
        super().__init__()
        self.shape = shape
        self.stem, self.pool = make.convolve(3, shape.width, 7, 2), nn.MaxPool2d(3, 2, 1)
        layers: list[nn.Module] = []
        inputs = shape.width
        for level, count in enumerate(shape.blocks):
            for index in range(count):
                stride = 2 if level > 0 and index == 0 else 1
                outputs = 4 * shape.width * 2**level
                layers.append(Bottleneck(make, inputs, outputs // 4, outputs, stride, 1))
                inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.propose = Convolution(inputs, inputs // 2, 3, make.form)
        self.score = Convolution(inputs // 2, len(shape.anchors), 1, make.form)
        self.shift = Convolution(inputs // 2, 4 * len(shape.anchors), 1, make.form)
        wide = 2 * inputs
        first = Bottleneck(make, inputs, wide // 4, wide, 2, 1)
        rest = [Bottleneck(make, wide, wide // 4, wide, 1, 1) for _ in range(shape.head - 1)]
        self.head = nn.Sequential(first, *rest)
        self.classify, self.refine = Linear(wide, shape.classes + 1, make.form), Linear(wide, 4, make.form)
        self.anchors: Tensor
        self.register_buffer("anchors", self._lay_out_anchors().to(make.form.dtype), persistent=False)

    def _lay_out_anchors(self) -> Tensor:
        """Squares around the middle of each cell: [anchors x cells, 4]."""
        stride, count = self.shape.stride, self.shape.pixels // self.shape.stride
        place = (torch.arange(count) + 0.5) * stride
        down, right = torch.meshgrid(place, place, indexing="ij")
        half = torch.tensor(self.shape.anchors)[:, None, None] / 2
        return torch.stack((right - half, down - half, right + half, down + half), -1).flatten(0, 2)

    def forward(self, images: Tensor, boxes: Tensor | None = None, kinds: Tensor | None = None) -> Tensor:
        """Regions with their logits, [batch, proposals, 4 + classes + 1], the last class is "nothing"; or the loss.

        `boxes` are [batch, things, 4] in pixels, `kinds` [batch, things].
        """
        seen = self.layers(self.pool(self.stem(images).relu()))
        hidden = self.propose(seen).relu()
        scores = self.score(hidden).flatten(1).float()
        shifts = self.shift(hidden).unflatten(1, (-1, 4)).permute(0, 1, 3, 4, 2).flatten(1, 3).float()
        anchors = self.anchors.float()
        proposed = move_boxes(anchors, shifts)
        best = scores.topk(self.shape.proposals, 1).indices[..., None].expand(-1, -1, 4)
        regions = proposed.gather(1, best).detach()
        if boxes is None or kinds is None:
            return self._look(seen, regions)
        regions = torch.cat((regions[:, boxes.shape[1] :], boxes), 1)  # those who learn are shown the right ones, too
        answers = self._look(seen, regions)
        return mark_loss(
            self._judge_proposals(anchors, scores, shifts, boxes) + self._judge_regions(regions, answers, boxes, kinds),
            "sum",
        )

    def _look(self, seen: Tensor, regions: Tensor) -> Tensor:
        cut = cut_out(seen, regions / self.shape.stride, self.shape.side)
        hidden = self.head(cut).mean((2, 3))
        refined = move_boxes(regions.flatten(0, 1), self.refine(hidden).float())
        answer = torch.cat((refined, self.classify(hidden).float()), 1)
        return answer.view(*regions.shape[:2], -1)

    def _judge_proposals(self, anchors: Tensor, scores: Tensor, shifts: Tensor, boxes: Tensor) -> Tensor:
        overlap = compare_boxes(anchors.expand(boxes.shape[0], -1, -1), boxes)  # [batch, anchors, things]
        best, thing = overlap.max(2)
        nearest = overlap == overlap.amax(1, keepdim=True)  # every thing has an anchor, however bad
        holds = ((best > ENOUGH) | (nearest & (overlap > 0)).any(2)).float()
        something = nn.functional.binary_cross_entropy_with_logits(scores, holds, reduction="none")
        wanted = find_shifts(anchors, boxes.gather(1, thing[..., None].expand(-1, -1, 4)))
        apart = nn.functional.smooth_l1_loss(shifts, wanted, reduction="none").sum(-1) * holds
        held, free = holds.sum().clamp(min=1.0), (1 - holds).sum().clamp(min=1.0)
        return (something * holds).sum() / held + (something * (1 - holds)).sum() / free + apart.sum() / held

    def _judge_regions(self, regions: Tensor, answers: Tensor, boxes: Tensor, kinds: Tensor) -> Tensor:
        best, thing = compare_boxes(regions, boxes).max(2)
        holds = best > ENOUGH
        wanted = torch.where(holds, kinds.gather(1, thing), self.shape.classes)
        kind = nn.functional.cross_entropy(answers[..., 4:].flatten(0, 1), wanted.flatten())
        true = boxes.gather(1, thing[..., None].expand(-1, -1, 4))
        off = nn.functional.smooth_l1_loss(
            answers[..., :4] / self.shape.stride, true / self.shape.stride, reduction="none"
        )
        weight = holds.float()
        return kind + (off.sum(-1) * weight).sum() / weight.sum().clamp(min=1.0)


def move_boxes(boxes: Tensor, shifts: Tensor) -> Tensor:
    """Boxes moved by parts of their sides, and scaled by exponents."""
    size = boxes[..., 2:] - boxes[..., :2]
    middle = boxes[..., :2] + 0.5 * size + shifts[..., :2] * size
    half = 0.5 * size * shifts[..., 2:].clamp(max=4.0).exp()
    return torch.cat((middle - half, middle + half), -1)


def find_shifts(boxes: Tensor, wanted: Tensor) -> Tensor:
    """What moves boxes to where they are wanted."""
    size, goal = boxes[..., 2:] - boxes[..., :2], wanted[..., 2:] - wanted[..., :2]
    apart = (wanted[..., :2] + 0.5 * goal - boxes[..., :2] - 0.5 * size) / size
    return torch.cat((apart, (goal / size).clamp(min=1e-3).log()), -1)


def compare_boxes(left: Tensor, right: Tensor) -> Tensor:
    """Intersection over union of all pairs: [batch, left, right]."""
    one, other = left[:, :, None], right[:, None]
    shared = (torch.minimum(one[..., 2:], other[..., 2:]) - torch.maximum(one[..., :2], other[..., :2])).clamp(min=0)
    both = shared[..., 0] * shared[..., 1]
    areas = [
        (part[..., 2] - part[..., 0]).clamp(min=0) * (part[..., 3] - part[..., 1]).clamp(min=0) for part in (one, other)
    ]
    return both / (areas[0] + areas[1] - both).clamp(min=1e-6)


def cut_out(seen: Tensor, regions: Tensor, side: int) -> Tensor:
    """Each region as `side` x `side` cells by linear interpolation: [batch x regions, channels, side, side]."""
    steps = (torch.arange(side, device=seen.device) + 0.5) / side
    size = regions[..., 2:] - regions[..., :2]
    places = regions[..., :2, None] + size[..., None] * steps - 0.5  # [batch, regions, right or down, side]
    cells = torch.arange(seen.shape[-1], device=seen.device)
    weights = (1 - (places[..., None] - cells).abs()).clamp(min=0).to(seen.dtype)
    rows = torch.einsum("brsh,bchw->brcsw", weights[:, :, 1], seen)
    return torch.einsum("brtw,brcsw->brcst", weights[:, :, 0], rows).flatten(0, 1)
