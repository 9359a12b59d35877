"""Conformer: sounds from spectra, by attention and convolution."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.layers import Format
from openipu.models.sound.speech import Conformer, ConformerShape
from openipu_garden.data import draw_sounds
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse, score_classes

FRAMES, FEATURES, SOUNDS = 32, 16, 8
QUARTER = 4  # frames that become one


def _begin() -> Course:
    torch.manual_seed(0)
    shape = ConformerShape(2, 32, 4, features=FEATURES, kernel=5, most_frames=FRAMES // QUARTER)
    network = Conformer(shape, Format.FLOAT32, classes=SOUNDS)
    voices = torch.randn(SOUNDS, FEATURES, generator=torch.Generator().manual_seed(0))
    lesson = Lesson(
        train=network,
        ask=network,
        inputs=1,
        draw=lambda generator: _draw(generator, voices),
        judge=score_classes,
        optimizer=torch.optim.AdamW(network.parameters(), lr=2e-3),
        steps=200,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator, voices: Tensor) -> Batch:
    labels = torch.randint(SOUNDS, (16, FRAMES // QUARTER), generator=generator)
    return draw_sounds(generator, labels, voices, QUARTER), labels


FAMILIES = (
    Family(
        name="conformer",
        title="Conformer, medium",
        area=Area.RECOGNITION,
        paper="Gulati et al. 2020",
        learns="which of eight sounds is heard in noisy spectra of 32 frames, with two blocks",
        goal=Goal("accuracy", bar=0.9, guess=1 / SOUNDS),
        begin=_begin,
        figures=("CONF-005", "CONF-001", "CONF-003", "CONF-004", "PRTB-012", "PRTB-014"),
    ),
)
