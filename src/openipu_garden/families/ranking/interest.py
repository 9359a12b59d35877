"""DIN and DIEN: will a user click, after what he has looked at?"""

from __future__ import annotations

import torch

from openipu.models.interest import InterestNetwork, InterestShape
from openipu.models.layers import Format
from openipu_garden.data import score_ranking
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

USERS, ITEMS, KINDS, HISTORY = 50, 40, 8, 6
RECENT = 3  # what was looked at before that no longer counts for DIEN's users
FLIPPED = 0.05  # clicks that mean nothing


def _begin(evolves: bool) -> Course:
    torch.manual_seed(0)
    shape = InterestShape(USERS, ITEMS, KINDS, width=8, attention=(32, 16), tower=(64, 32))
    network = InterestNetwork(shape, Format.FLOAT32, evolves=evolves)
    lesson = Lesson(
        train=network,
        ask=network,
        inputs=5,
        draw=lambda generator: _draw(generator, RECENT if evolves else HISTORY),
        judge=lambda scores, batch: score_ranking(scores, batch[-1]),
        optimizer=torch.optim.Adam(network.parameters(), lr=1e-2),
        steps=400,
        steps_a_call=20,
        test_batches=4,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator, counted: int) -> Batch:
    """A user clicks on what is of a kind that he has looked at among the last things that count."""
    user = torch.randint(USERS, (128,), generator=generator)
    items = torch.randint(ITEMS, (128, HISTORY), generator=generator)
    known = torch.rand(128, generator=generator) < 0.5  # half of the candidates are of a kind of the history
    chosen = items.gather(1, torch.randint(HISTORY, (128, 1), generator=generator))[:, 0]
    item = torch.where(known, chosen, torch.randint(ITEMS, (128,), generator=generator))
    kind, kinds = item % KINDS, items % KINDS
    clicked = (kinds[:, -counted:] == kind[:, None]).any(1)
    flipped = torch.rand(128, generator=generator) < FLIPPED
    return user.int(), item.int(), kind.int(), items.int(), kinds.int(), (clicked ^ flipped).float()


FAMILIES = (
    Family(
        name="din",
        title="DIN, deep interest network",
        area=Area.RANKING,
        paper="Zhou et al. 2018",
        learns="that users click on kinds of things that are in their history of six",
        goal=Goal("area under the curve", bar=0.85, guess=0.5),
        begin=lambda: _begin(evolves=False),
        figures=("GARDEN-DIN",),
    ),
    Family(
        name="dien",
        title="DIEN, deep interest evolution network",
        area=Area.RANKING,
        paper="Zhou et al. 2019",
        learns="that users click on kinds of things that are among the last three of their history of six",
        goal=Goal("area under the curve", bar=0.85, guess=0.5),
        begin=lambda: _begin(evolves=True),
        figures=("GARDEN-DIEN",),
    ),
)
