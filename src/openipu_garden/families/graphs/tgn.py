"""TGN: who will meet whom, from what happened to both before."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import poptorch
from openipu.models.layers import Format
from openipu.models.temporal import TemporalGraph, TemporalShape
from openipu.plan import Plan
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import TRAINING_SEED, Batch

USERS, GROUPS, EACH = 16, 4, 8  # users; groups of items, and items of each
ITEMS = GROUPS * EACH
BATCHES, LAST = 400, 100  # batches in all, and those that are judged
CHANGE = 0.05  # how often a user turns to another group, an event


class Stream:
    """Users who take items of the group that they like at the moment. Nothing but their past tells which."""

    def __init__(self) -> None:
        self._generator = torch.Generator().manual_seed(TRAINING_SEED)
        self._likes = torch.randint(GROUPS, (USERS,), generator=self._generator)
        self._clock = torch.zeros(USERS + ITEMS)
        self._now = 0.0

    def draw(self) -> Batch:
        """One event of every second user, with items that no two share, and an item of another group."""
        users = torch.randperm(USERS, generator=self._generator)[:EACH]
        changed = torch.rand(USERS, generator=self._generator) < CHANGE
        self._likes = torch.where(changed, torch.randint(GROUPS, (USERS,), generator=self._generator), self._likes)
        targets, others = self._choose_items(self._likes[users].tolist())
        nodes = torch.arange(USERS + ITEMS)
        features = torch.zeros(USERS + ITEMS, GROUPS)
        features[USERS:] = torch.nn.functional.one_hot(torch.arange(ITEMS) // EACH, GROUPS).float()
        ages = (self._now - self._clock).clamp(max=20.0)
        neighbours = torch.randint(USERS + ITEMS, (USERS + ITEMS, 2), generator=self._generator)
        events = features[targets]
        self._now += 1.0
        self._clock[users] = self._now
        self._clock[targets] = self._now
        return nodes, features, ages, neighbours, users, targets, others, events

    def _choose_items(self, likes: list[int]) -> tuple[Tensor, Tensor]:
        """An item of the group that each likes and, from another group, one that was not taken."""
        order = torch.randperm(EACH, generator=self._generator).tolist()
        taken: list[int] = [0] * GROUPS
        targets, others = [], []
        for group in likes:
            place = order[taken[group]]
            taken[group] += 1
            targets.append(USERS + group * EACH + place)
            away = (group + 1 + int(torch.randint(GROUPS - 1, (), generator=self._generator))) % GROUPS
            others.append(USERS + away * EACH + int(torch.randint(EACH, (), generator=self._generator)))
        return torch.tensor(targets), torch.tensor(others)


class StreamCourse:
    """Asked about every batch before it learns from it: the last batches are judged."""

    calls = BATCHES

    def __init__(self) -> None:
        torch.manual_seed(0)
        shape = TemporalShape(USERS + ITEMS, memory=16, features=GROUPS, time=4, heads=2, neighbours=2)
        network = TemporalGraph(shape, Format.FLOAT32)
        options = poptorch.Options().enableDeterminism()
        options.showCompilationProgressBar(False)
        optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
        self._stream, self._right = Stream(), list[float]()
        self._program: Any = poptorch.trainingModel(network, options, optimizer=optimizer)

    def plan(self) -> Plan:
        if not self._program.isCompiled():
            self._program.compile(*self._stream.draw())
        plan: Plan = self._program.__openipu_compiled__().plan
        return plan

    def advance(self) -> float:
        loss, answers = self._program(*self._stream.draw())
        self._right.append((answers[:, 0] > answers[:, 1]).float().mean().item())
        return float(loss)

    def measure(self) -> float:
        judged = self._right[-LAST:]
        return sum(judged) / len(judged)

    def close(self) -> None:
        self._program.destroy()


def _begin() -> Course:
    return StreamCourse()


FAMILIES = (
    Family(
        name="tgn",
        title="TGN, temporal graph network",
        area=Area.GRAPHS,
        paper="Rossi et al. 2020",
        learns="which item each of 16 users takes next, from what they took before; asked before it is told",
        goal=Goal("pairs in the right order", bar=0.8, guess=0.5),
        begin=_begin,
        figures=("GARDEN-TGN",),
    ),
)
