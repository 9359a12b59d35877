"""EfficientNet-B0 and -B4: depth, width and image size grown together."""

from __future__ import annotations

import torch

from openipu.models.images.networks import EfficientNetwork, Make
from openipu.models.layers import Format
from openipu.models.losses import WithClassLoss
from openipu_garden.data import draw_gratings
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Lesson, LessonCourse, score_classes

STAGES = ((1, 16, 1, 1, 3), (4, 24, 2, 2, 3), (4, 32, 1, 2, 5))  # expansion, channels, blocks, stride, kernel


def _begin(group_width: int) -> Course:
    torch.manual_seed(0)
    make = Make(Format.FLOAT32, training=True, norm_groups=4)
    network = EfficientNetwork(
        make, width=1.0, depth=1.0, group_width=group_width, expansion=4, classes=10, stages=STAGES, last=64
    )
    lesson = Lesson(
        train=WithClassLoss(network),
        ask=network,
        inputs=1,
        draw=lambda generator: draw_gratings(generator, 32, pixels=32),
        judge=score_classes,
        optimizer=torch.optim.Adam(network.parameters(), lr=2e-3),
        steps=150,
    )
    return LessonCourse(lesson)


LEARNS = "the direction of stripes in noisy images of 32 x 32, ten classes, with filters over groups of {}"

FAMILIES = (
    Family(
        name="efficientnet-b0",
        title="EfficientNet-B0",
        area=Area.IMAGES,
        paper="Tan and Le 2019",
        learns=LEARNS.format("one channel"),
        goal=Goal("accuracy", bar=0.9, guess=0.1),
        begin=lambda: _begin(group_width=1),
        figures=("GARDEN-EFFICIENTNET-B0",),
    ),
    Family(
        name="efficientnet-b4",
        title="EfficientNet-B4, groups of 16",
        area=Area.IMAGES,
        paper="Tan and Le 2019; Masters et al. 2021",
        learns=LEARNS.format("four channels"),
        goal=Goal("accuracy", bar=0.9, guess=0.1),
        begin=lambda: _begin(group_width=4),
        figures=("VEN-020", "VEN-021", "VEN-022", "VEN-023", "VEN-038"),
    ),
)
