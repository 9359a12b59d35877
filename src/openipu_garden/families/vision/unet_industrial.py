"""U-Net for industry: which pixels of a textured surface are a defect."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.images.networks import Unet
from openipu.models.layers import Format
from openipu.models.losses import WithPixelLoss
from openipu_garden.data import draw_blobs
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

PIXELS = 32


def _begin() -> Course:
    torch.manual_seed(0)
    network = Unet(Format.FLOAT32, width=8, levels=3, padded=True)
    lesson = Lesson(
        train=WithPixelLoss(network),
        ask=network,
        inputs=1,
        draw=lambda generator: draw_blobs(generator, 16, PIXELS),
        judge=judge_overlap,
        optimizer=torch.optim.Adam(network.parameters(), lr=3e-3),
        steps=220,
    )
    return LessonCourse(lesson)


def judge_overlap(logits: Tensor, batch: Batch) -> float:
    """Pixels that both call a defect, over those that either does."""
    found, true = logits.argmax(1) == 1, batch[-1] == 1
    return ((found & true).sum() / (found | true).sum().clamp(min=1)).item()


FAMILIES = (
    Family(
        name="unet-industrial",
        title="U-Net, industrial",
        area=Area.SEGMENTATION,
        paper="Ronneberger et al. 2015",
        learns="which pixels of a noisy, shaded surface of 32 x 32 belong to a spot, with three levels",
        goal=Goal("intersection over union", bar=0.8, guess=0.074),
        begin=_begin,
        figures=("GARDEN-UNET-INDUSTRIAL",),
    ),
)
