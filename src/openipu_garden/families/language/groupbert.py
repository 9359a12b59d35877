"""GroupBERT: an encoder with convolutions beside attention, and feed-forward parts in groups."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.layers import Format
from openipu.models.text.grouped import GroupedEncoder, GroupedShape
from openipu_garden.data import draw_repeats
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

WORDS, LENGTH, PERIOD = 32, 16, 4
MASK = WORDS


def _begin() -> Course:
    torch.manual_seed(0)
    shape = GroupedShape(2, 64, 4, WORDS + 1, LENGTH, predicted=PERIOD)
    encoder = GroupedEncoder(shape, Format.FLOAT32)
    lesson = Lesson(
        train=encoder,
        ask=encoder,
        inputs=1,
        draw=_draw,
        judge=_judge,
        optimizer=torch.optim.AdamW(encoder.parameters(), lr=2e-3),
        steps=200,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator) -> Batch:
    whole = draw_repeats(generator, 32, LENGTH, PERIOD, WORDS)
    tokens = whole.clone()
    tokens[:, :PERIOD] = MASK
    return tokens.int(), whole


def _judge(logits: Tensor, batch: Batch) -> float:
    return (logits.argmax(-1) == batch[-1][:, :PERIOD]).float().mean().item()


FAMILIES = (
    Family(
        name="groupbert",
        title="GroupBERT-Base",
        area=Area.LANGUAGE,
        paper="Chelombiev et al. 2021",
        learns="masked words of patterns that repeat, among 32 words, with two layers",
        goal=Goal("accuracy of masked words", bar=0.9, guess=1 / WORDS),
        begin=_begin,
        figures=("GARDEN-GROUPBERT",),
    ),
)
