"""The variational autoencoder: pictures from a few random numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.generative import VariationalAutoencoder
from openipu.models.layers import Format
from openipu_garden.data import draw_blobs
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

PIXELS = 12


def _begin() -> Course:
    torch.manual_seed(0)
    network = VariationalAutoencoder(Format.FLOAT32, pixels=PIXELS * PIXELS, hidden=128, latent=8)
    lesson = Lesson(
        train=network,
        ask=network,
        inputs=1,
        draw=_draw,
        judge=_judge,
        optimizer=torch.optim.Adam(network.parameters(), lr=3e-3),
        steps=500,
        steps_a_call=20,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator) -> Batch:
    _, spots = draw_blobs(generator, 64, PIXELS)
    pictures = spots.flatten(1).float()
    return pictures, pictures


def _judge(drawn: Tensor, batch: Batch) -> float:
    found, true = drawn > 0.5, batch[-1] > 0.5
    return ((found & true).sum() / (found | true).sum()).item()


FAMILIES = (
    Family(
        name="vae",
        title="Variational autoencoder",
        area=Area.GENERATIVE,
        paper="Kingma and Welling 2013",
        learns="to draw spots of any place and size again from eight numbers",
        goal=Goal("intersection over union", bar=0.8, guess=0.074),
        begin=_begin,
        figures=("GARDEN-VAE",),
    ),
)
