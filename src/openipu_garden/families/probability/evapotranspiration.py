"""ET0: reference evapotranspiration, the water that grass gives to the air in a day."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.forecast import WeatherRegression
from openipu.models.layers import Format
from openipu_garden.data import score_explained
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

DAYS = 8
MEMORY = 0.7  # how much of a day's weather is that of the day before


def _begin() -> Course:
    torch.manual_seed(0)
    network = WeatherRegression(Format.FLOAT32, features=5, hidden=32)
    lesson = Lesson(
        train=network,
        ask=network,
        inputs=1,
        draw=_draw,
        judge=lambda answers, batch: score_explained(answers, batch[-1]),
        optimizer=torch.optim.Adam(network.parameters(), lr=5e-3),
        steps=400,
        steps_a_call=20,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator) -> Batch:
    """Days of weather as standard numbers, and the last day's evapotranspiration in millimetres."""
    days = torch.randn(64, DAYS, 5, generator=generator)
    for day in range(1, DAYS):
        days[:, day] = MEMORY * days[:, day - 1] + (1 - MEMORY**2) ** 0.5 * days[:, day]
    heat, spread, humid, wind, sun = days[:, -1].unbind(-1)
    warmth = 18 + 7 * heat
    return days, compute_evapotranspiration(
        least=warmth - 4 - spread.abs(),
        most=warmth + 4 + spread.abs(),
        humidity=(0.6 + 0.15 * humid).clamp(0.1, 1.0),
        wind=(2 + wind).clamp(min=0.0),
        radiation=(12 + 4 * sun).clamp(min=0.0),
    )


def compute_evapotranspiration(
    *, least: Tensor, most: Tensor, humidity: Tensor, wind: Tensor, radiation: Tensor
) -> Tensor:
    """The equation of Penman and Monteith as the FAO has it (Allen et al. 1998, paper 56, equation 6), at sea level.

    Temperatures in °C, wind at two metres in m/s, net radiation in MJ/m² a day; no heat goes into the ground.
    """
    mean = (least + most) / 2
    full = (_saturate(least) + _saturate(most)) / 2  # kPa, equations 11 and 12
    slope = 4098 * _saturate(mean) / (mean + 237.3).square()  # equation 13
    psychrometric = 0.665e-3 * 101.3  # kPa/°C, equation 8
    dry = 900 / (mean + 273) * wind * full * (1 - humidity)
    return (0.408 * slope * radiation + psychrometric * dry) / (slope + psychrometric * (1 + 0.34 * wind))


def _saturate(celsius: Tensor) -> Tensor:
    return 0.6108 * (17.27 * celsius / (celsius + 237.3)).exp()


FAMILIES = (
    Family(
        name="et0",
        title="ET0, evapotranspiration",
        area=Area.REGRESSION,
        paper="Allen et al. 1998",
        learns="the equation of Penman and Monteith from eight days of weather",
        goal=Goal("R²", bar=0.9, guess=0.0),
        begin=_begin,
        figures=("GARDEN-ET0",),
    ),
)
