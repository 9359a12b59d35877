"""The autoencoder of ratings: what a user would say of what he has not seen."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.generative import RatingAutoencoder
from openipu.models.layers import Format
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

ITEMS, TASTES, SEEN = 64, 3, 0.5


def _begin() -> Course:
    torch.manual_seed(0)
    network = RatingAutoencoder(Format.FLOAT32, items=ITEMS, sizes=(64, 16))
    items = torch.randn(TASTES, ITEMS, generator=torch.Generator().manual_seed(0))
    lesson = Lesson(
        train=network,
        ask=network,
        inputs=1,
        draw=lambda generator: _draw(generator, items),
        judge=_judge,
        optimizer=torch.optim.Adam(network.parameters(), lr=3e-3),
        steps=400,
        steps_a_call=20,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator, items: Tensor) -> Batch:
    """Users have tastes, items have what meets them; half of a user's ratings are seen, all are wanted."""
    tastes = torch.randn(64, TASTES, generator=generator)
    ratings = (tastes @ items) / TASTES**0.5
    seen = torch.rand(ratings.shape, generator=generator) < SEEN
    return ratings * seen, ratings


def _judge(answers: Tensor, batch: Batch) -> float:
    """R² on the ratings that were not seen."""
    hidden = batch[0] == 0
    missed = (answers - batch[1])[hidden].square().mean()
    return (1 - missed / batch[1][hidden].square().mean()).item()


FAMILIES = (
    Family(
        name="autoencoder",
        title="Deep autoencoder of ratings",
        area=Area.GENERATIVE,
        paper="Kuchaiev and Ginsburg 2017",
        learns="ratings that it has not seen, from half of a user's ratings of 64 items",
        goal=Goal("R² of hidden ratings", bar=0.8, guess=0.0),
        begin=_begin,
        figures=("GARDEN-AUTOENCODER",),
    ),
)
