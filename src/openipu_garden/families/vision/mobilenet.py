"""MobileNet v2 and v3: networks for small machines."""

from __future__ import annotations

import torch

from openipu.models.images.mobile import MobileNetwork, MobileRow, MobileShape
from openipu.models.images.networks import Make
from openipu.models.layers import Format
from openipu.models.losses import WithClassLoss
from openipu_garden.data import draw_gratings
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Lesson, LessonCourse, score_classes


def _begin(third: bool) -> Course:
    torch.manual_seed(0)
    rows = (
        MobileRow(3, 16, 16),
        MobileRow(3, 48, 24, 2, excites=third),
        MobileRow(3, 72, 24, excites=third, hard=third),
        MobileRow(3, 96, 32, 2, excites=third, hard=third),
    )
    shape = MobileShape(rows, stem=16, last=64, hidden=64 if third else 0, hard=third, classes=10)
    network = MobileNetwork(Make(Format.FLOAT32, training=True), shape)
    lesson = Lesson(
        train=WithClassLoss(network),
        ask=network,
        inputs=1,
        draw=lambda generator: draw_gratings(generator, 32, pixels=32),
        judge=score_classes,
        optimizer=torch.optim.Adam(network.parameters(), lr=3e-3),
        steps=150,
    )
    return LessonCourse(lesson)


LEARNS = "the direction of stripes in noisy images of 32 x 32, ten classes, with four blocks"

FAMILIES = (
    Family(
        name="mobilenet-v2",
        title="MobileNet v2",
        area=Area.IMAGES,
        paper="Sandler et al. 2018",
        learns=LEARNS,
        goal=Goal("accuracy", bar=0.9, guess=0.1),
        begin=lambda: _begin(third=False),
        figures=("GARDEN-MOBILENET-V2",),
    ),
    Family(
        name="mobilenet-v3",
        title="MobileNet v3 large",
        area=Area.IMAGES,
        paper="Howard et al. 2019",
        learns=f"{LEARNS}, channels scaled by the whole image",
        goal=Goal("accuracy", bar=0.9, guess=0.1),
        begin=lambda: _begin(third=True),
        figures=("GARDEN-MOBILENET-V3",),
    ),
)
