"""ViT: patches of an image as words."""

from __future__ import annotations

import torch

from openipu.models.layers import Format
from openipu.models.text.encoders import EncoderShape, ImageEncoder
from openipu_garden.data import draw_gratings
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Lesson, LessonCourse, score_classes

PIXELS, PATCH = 32, 8


def _begin() -> Course:
    torch.manual_seed(0)
    shape = EncoderShape(layers=2, hidden=64, heads=4, feed_forward=128, norm_first=True, separate=True)
    encoder = ImageEncoder(shape, Format.FLOAT32, patch=PATCH, classes=10, pixels=PIXELS)
    lesson = Lesson(
        train=encoder,
        ask=encoder,
        inputs=1,
        draw=lambda generator: draw_gratings(generator, 32, PIXELS),
        judge=score_classes,
        optimizer=torch.optim.AdamW(encoder.parameters(), lr=2e-3),
        steps=150,
    )
    return LessonCourse(lesson)


FAMILIES = (
    Family(
        name="vit",
        title="ViT-Base",
        area=Area.IMAGES,
        paper="Dosovitskiy et al. 2020",
        learns="the direction of stripes in noisy images of 32 x 32, ten classes, from 16 patches with two layers",
        goal=Goal("accuracy", bar=0.9, guess=0.1),
        begin=_begin,
        figures=("VEN-025", "VEN-026", "VEN-027", "VEN-042", "MISC-002"),
    ),
)
