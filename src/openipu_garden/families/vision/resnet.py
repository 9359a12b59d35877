"""ResNet-50 and ResNeXt-101: residual networks on images."""

from __future__ import annotations

import torch

from openipu.models.images.networks import Make, ResidualNetwork
from openipu.models.layers import Format
from openipu.models.losses import WithClassLoss
from openipu_garden.data import draw_gratings
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Lesson, LessonCourse, score_classes


def _begin(groups: int, group_width: int) -> Course:
    torch.manual_seed(0)
    make = Make(Format.FLOAT32, training=True)
    network = ResidualNetwork(make, (1, 1, 1, 1), groups=groups, group_width=group_width, width=16, classes=10)
    lesson = Lesson(
        train=WithClassLoss(network),
        ask=network,
        inputs=1,
        draw=lambda generator: draw_gratings(generator, 32, pixels=32),
        judge=score_classes,
        optimizer=torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9),
        steps=150,
    )
    return LessonCourse(lesson)


FAMILIES = (
    Family(
        name="resnet-50",
        title="ResNet-50 v1.5",
        area=Area.IMAGES,
        paper="He et al. 2015",
        learns="the direction of stripes in noisy images of 32 x 32, ten classes, with four blocks",
        goal=Goal("accuracy", bar=0.9, guess=0.1),
        begin=lambda: _begin(groups=1, group_width=16),
        figures=("VEN-049", "VEN-035", "MLP-024", "MLP-018", "MLP-026", "PRTB-008", "POPRT-007"),
    ),
    Family(
        name="resnext-101",
        title="ResNeXt-101",
        area=Area.IMAGES,
        paper="Xie et al. 2016",
        learns="the direction of stripes in noisy images of 32 x 32, ten classes, with four blocks of eight groups",
        goal=Goal("accuracy", bar=0.9, guess=0.1),
        begin=lambda: _begin(groups=8, group_width=2),
        figures=("VEN-024", "VEN-041"),
    ),
)
