"""BERT: an encoder that says which words were masked."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.layers import Format
from openipu.models.text.encoders import EncoderShape, Head, TokenEncoder
from openipu_garden.data import draw_repeats
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

WORDS, LENGTH, PERIOD = 32, 24, 4
MASK = WORDS  # the word behind the others


def _begin(layers: int, hidden: int) -> Course:
    torch.manual_seed(0)
    shape = EncoderShape(layers, hidden, 4, 4 * hidden, vocabulary=WORDS + 1, most_positions=LENGTH, dropout=0.0)
    encoder = TokenEncoder(shape, Format.FLOAT32, Head.MASKED, predicted=PERIOD)
    lesson = Lesson(
        train=encoder,
        ask=encoder,
        inputs=2,
        draw=_draw,
        judge=_judge,
        optimizer=torch.optim.AdamW(encoder.parameters(), lr=2e-3),
        steps=300,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator) -> Batch:
    """Two sentences, each a pattern that repeats. The first pattern's words at the front are masked; whether both
    sentences have one pattern is the question of the next sentence, and stands behind the labels."""
    half = LENGTH // 2
    first = draw_repeats(generator, 32, half, PERIOD, WORDS)
    other = draw_repeats(generator, 32, half, PERIOD, WORDS)
    follows = torch.randint(2, (32,), generator=generator)
    whole = torch.cat((first, torch.where(follows[:, None] == 1, first, other)), 1)
    tokens = whole.clone()
    tokens[:, :PERIOD] = MASK
    labels = whole.clone()
    labels[:, -1] = follows
    return tokens.int(), torch.ones_like(tokens, dtype=torch.int32), labels


def _judge(logits: Tensor, batch: Batch) -> float:
    return (logits.argmax(-1) == batch[-1][:, :PERIOD]).float().mean().item()


LEARNS = "masked words of patterns that repeat, among 32 words, with {} layers"

FAMILIES = (
    Family(
        name="bert-base",
        title="BERT-Base",
        area=Area.LANGUAGE,
        paper="Devlin et al. 2018",
        learns=LEARNS.format("two"),
        goal=Goal("accuracy of masked words", bar=0.9, guess=1 / WORDS),
        begin=lambda: _begin(layers=2, hidden=64),
        figures=("VEN-048", "VEN-014", "VEN-016", "PRTB-003", "BYTE-005"),
    ),
    Family(
        name="bert-large",
        title="BERT-Large",
        area=Area.LANGUAGE,
        paper="Devlin et al. 2018",
        learns=LEARNS.format("four"),
        goal=Goal("accuracy of masked words", bar=0.9, guess=1 / WORDS),
        begin=lambda: _begin(layers=4, hidden=64),
        figures=("VEN-047", "VEN-001", "VEN-002", "VEN-006", "MLP-022", "MLP-042", "MLP-052", "PRTB-006"),
    ),
)
