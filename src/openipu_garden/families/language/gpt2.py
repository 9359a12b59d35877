"""GPT-2: a decoder that says the next word."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.layers import Format
from openipu.models.text.decoders import Decoder, DecoderShape
from openipu_garden.data import draw_repeats
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

WORDS, LENGTH, PERIOD = 32, 24, 6


def _begin() -> Course:
    torch.manual_seed(0)
    decoder = Decoder(DecoderShape(2, 64, 4, WORDS, most_positions=LENGTH), Format.FLOAT32)
    lesson = Lesson(
        train=decoder,
        ask=decoder,
        inputs=1,
        draw=_draw,
        judge=_judge,
        optimizer=torch.optim.AdamW(decoder.parameters(), lr=3e-3),
        steps=300,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator) -> Batch:
    whole = draw_repeats(generator, 32, LENGTH + 1, PERIOD, WORDS)
    return whole[:, :-1].int(), whole[:, 1:].contiguous()


def _judge(logits: Tensor, batch: Batch) -> float:
    """Where the pattern has been seen once: before, nobody could know."""
    known = slice(PERIOD - 1, None)
    return (logits.argmax(-1)[:, known] == batch[-1][:, known]).float().mean().item()


FAMILIES = (
    Family(
        name="gpt2",
        title="GPT-2 small",
        area=Area.LANGUAGE,
        paper="Radford et al. 2019",
        learns="the next word of patterns that repeat, among 32 words, with two layers",
        goal=Goal("accuracy of the next word", bar=0.9, guess=1 / WORDS),
        begin=_begin,
        figures=("GARDEN-GPT2",),
    ),
)
