"""The sales forecast: what shops sell tomorrow, from a table of shops, days and weather."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.forecast import TableForecast
from openipu.models.layers import Format
from openipu_garden.data import score_explained
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

SHOPS, WEEKDAYS, PROMOTIONS, MONTHS = 20, 7, 2, 12
NOISE = 0.1


def _begin() -> Course:
    torch.manual_seed(0)
    columns = (SHOPS, WEEKDAYS, PROMOTIONS, MONTHS)
    network = TableForecast(Format.FLOAT32, columns=columns, numbers=2, width=8, hidden=(64, 32))
    fixed = torch.Generator().manual_seed(0)
    effects = [torch.randn(count, generator=fixed) for count in columns]
    answer = torch.randn(SHOPS, generator=fixed)  # how strongly each shop answers to a promotion
    lesson = Lesson(
        train=network,
        ask=network,
        inputs=2,
        draw=lambda generator: _draw(generator, effects, answer),
        judge=lambda answers, batch: score_explained(answers, batch[-1]),
        optimizer=torch.optim.Adam(network.parameters(), lr=5e-3),
        steps=400,
        steps_a_call=20,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator, effects: list[Tensor], answer: Tensor) -> Batch:
    """The logarithm of sales: what shop, weekday and month add, promotions that work in some shops, and the weather."""
    columns = torch.stack([torch.randint(len(part), (128,), generator=generator) for part in effects], 1)
    weather = torch.randn(128, 2, generator=generator)
    sales = sum(part[columns[:, index]] for index, part in enumerate(effects) if index != 2)
    sales = sales + columns[:, 2] * answer[columns[:, 0]] + 0.5 * weather[:, 0] - 0.3 * weather[:, 1].abs()
    return columns.int(), weather, sales + NOISE * torch.randn(128, generator=generator)


FAMILIES = (
    Family(
        name="sales-forecast",
        title="Sales forecast",
        area=Area.PROBABILITY,
        paper="Guo and Berkhahn 2016",
        learns="the logarithm of sales of 20 shops from weekday, month, promotions and weather",
        goal=Goal("R²", bar=0.9, guess=0.0),
        begin=_begin,
        figures=("GARDEN-SALES",),
    ),
)
