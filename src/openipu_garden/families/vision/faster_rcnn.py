"""Faster R-CNN: where something may be, then what it is."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.images.networks import Make
from openipu.models.images.regions import RegionDetector, RegionShape
from openipu.models.layers import Format
from openipu_garden.boxes import KINDS, draw_things, judge_boxes
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

PIXELS = 64
SHAPE = RegionShape(PIXELS, width=8, blocks=(1, 1), head=1, anchors=(20.0, 34.0), proposals=8, side=4, classes=KINDS)


def _begin() -> Course:
    torch.manual_seed(0)
    network = RegionDetector(Make(Format.FLOAT32, training=True, norm_groups=4), SHAPE)
    lesson = Lesson(
        train=network,
        ask=network,
        inputs=1,
        draw=_draw,
        judge=lambda answers, batch: judge_boxes(*_read(answers), batch[1][:, 0], batch[2][:, 0]),
        optimizer=torch.optim.Adam(network.parameters(), lr=3e-3),
        steps=400,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator) -> Batch:
    images, boxes, kinds = draw_things(generator, 8, PIXELS)
    return images, boxes[:, None], kinds[:, None]


def _read(answers: Tensor) -> tuple[Tensor, Tensor]:
    """The region of each image that is most surely a thing, and its kind."""
    chances = answers[..., 4:].softmax(-1)[..., :-1]
    best = chances.amax(-1).argmax(1)
    each = torch.arange(len(answers))
    return answers[each, best, :4], chances[each, best].argmax(-1)


FAMILIES = (
    Family(
        name="faster-rcnn",
        title="Faster R-CNN",
        area=Area.DETECTION,
        paper="Ren et al. 2015",
        learns="to find a bright thing of any size in noisy images of 64 x 64, and which of three kinds it is",
        goal=Goal("things found", bar=0.8, guess=0.044),
        begin=_begin,
        figures=("GARDEN-FASTER-RCNN",),
    ),
)
