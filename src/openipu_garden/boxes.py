"""Images with one thing in each, and how well a box fits it.

In: a generator. Out: images, boxes (left, top, right, bottom in pixels) and kinds; a share of things that were found.
"""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.images.regions import compare_boxes
from openipu_garden.data import NOISE

KINDS = 3
FOUND = 0.5  # intersection over union of a box that counts


def draw_things(generator: torch.Generator, count: int, pixels: int) -> tuple[Tensor, Tensor, Tensor]:
    """A bright rectangle in one of three colours, between a quarter and five eighths of the image wide and high."""
    size = pixels * (1 / 4 + 3 / 8 * torch.rand(count, 2, generator=generator))
    corner = (pixels - size) * torch.rand(count, 2, generator=generator)
    boxes = torch.cat((corner, corner + size), 1)
    kinds = torch.randint(KINDS, (count,), generator=generator)
    place = torch.arange(pixels) + 0.5
    inside = (place >= boxes[:, :2, None]) & (place < boxes[:, 2:, None])  # [count, right or down, pixels]
    thing = inside[:, 1, :, None] & inside[:, 0, None, :]
    colour = torch.nn.functional.one_hot(kinds, KINDS).float()
    images = 2 * thing[:, None] * colour[:, :, None, None]
    return images + NOISE * torch.randn(images.shape, generator=generator), boxes, kinds


def judge_boxes(boxes: Tensor, kinds: Tensor, true_boxes: Tensor, true_kinds: Tensor) -> float:
    """The share of images whose thing was found: its kind is right and the box overlaps it by half."""
    overlap = compare_boxes(boxes[:, None], true_boxes[:, None]).flatten()
    return ((overlap > FOUND) & (kinds == true_kinds)).float().mean().item()
