"""MPNN: properties of molecules from messages along their bonds."""

from __future__ import annotations

import torch

from openipu.models.graphs import MessageNetwork
from openipu.models.layers import Format
from openipu_garden.data import score_explained
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

GRAPHS, ATOMS, BONDS, ELEMENTS, ORDERS = 16, 8, 12, 4, 2


def _begin() -> Course:
    torch.manual_seed(0)
    network = MessageNetwork(Format.FLOAT32, features=ELEMENTS, described=ORDERS, nodes=32, edges=16, rounds=2)
    lesson = Lesson(
        train=network,
        ask=network,
        inputs=4,
        draw=_draw,
        judge=lambda answers, batch: score_explained(answers, batch[-1]),
        optimizer=torch.optim.Adam(network.parameters(), lr=3e-3),
        steps=400,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator) -> Batch:
    """Random molecules, and an energy: what each bond has by its order and the elements that it joins."""
    elements = torch.randint(ELEMENTS, (GRAPHS, ATOMS), generator=generator)
    starts = torch.randint(ATOMS, (GRAPHS, BONDS), generator=generator)
    ends = torch.randint(ATOMS, (GRAPHS, BONDS), generator=generator)
    orders = torch.randint(ORDERS, (GRAPHS, BONDS), generator=generator)
    alike = elements.gather(1, starts) == elements.gather(1, ends)
    energy = torch.where(alike, 1.0, -0.5) * (1.0 + orders)
    nodes = torch.nn.functional.one_hot(elements, ELEMENTS).float()
    bonds = torch.nn.functional.one_hot(orders, ORDERS).float()
    return nodes, bonds, starts, ends, energy.sum(1) / BONDS**0.5


FAMILIES = (
    Family(
        name="mpnn",
        title="MPNN, message passing network",
        area=Area.GRAPHS,
        paper="Gilmer et al. 2017",
        learns="an energy that the bonds of random molecules have by the elements that they join",
        goal=Goal("R²", bar=0.9, guess=0.0),
        begin=_begin,
        figures=("GARDEN-MPNN",),
    ),
)
