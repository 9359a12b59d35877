"""Mini DALL-E: words, then the codes of an image, by one decoder."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.layers import Format
from openipu.models.text.decoders import Decoder, DecoderShape
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

SHAPES, COLOURS, SIDE = 4, 8, 4  # words for shapes and colours; codes of an image's side
BACKGROUND = SHAPES + COLOURS  # the code of an empty place; those of colours follow
CODES = BACKGROUND + 1 + COLOURS
TEXT = 2  # words: a shape and a colour


def _begin() -> Course:
    torch.manual_seed(0)
    length = TEXT + SIDE * SIDE
    decoder = Decoder(DecoderShape(2, 64, 4, CODES, most_positions=length), Format.FLOAT32)
    lesson = Lesson(
        train=decoder,
        ask=decoder,
        inputs=1,
        draw=_draw,
        judge=_judge,
        optimizer=torch.optim.AdamW(decoder.parameters(), lr=2e-3),
        steps=200,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator) -> Batch:
    """ "left red" and the codes of an image whose left half is red: left, right, top or bottom, in eight colours."""
    shape = torch.randint(SHAPES, (32,), generator=generator)
    colour = torch.randint(COLOURS, (32,), generator=generator)
    place = torch.arange(SIDE)
    down, right = torch.meshgrid(place, place, indexing="ij")
    halves = torch.stack([right < SIDE // 2, right >= SIDE // 2, down < SIDE // 2, down >= SIDE // 2])
    codes = torch.where(halves[shape].flatten(1), BACKGROUND + 1 + colour[:, None], BACKGROUND)
    whole = torch.cat((shape[:, None], SHAPES + colour[:, None], codes), 1)
    return whole[:, :-1].int(), whole[:, 1:].contiguous()


def _judge(logits: Tensor, batch: Batch) -> float:
    """The share of images in which every code is right."""
    right = logits.argmax(-1)[:, TEXT - 1 :] == batch[-1][:, TEXT - 1 :]
    return right.all(1).float().mean().item()


FAMILIES = (
    Family(
        name="mini-dalle",
        title="Mini DALL-E",
        area=Area.GENERATIVE,
        paper="Ramesh et al. 2021",
        learns="to draw 16 codes of an image from two words, a place and a colour, with two layers",
        goal=Goal("images right in every code", bar=0.9, guess=1 / (SHAPES * COLOURS)),
        begin=_begin,
        figures=("VEN-034",),
    ),
)
