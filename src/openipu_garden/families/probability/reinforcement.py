"""Reinforcement learning: an agent that learns from what comes of its actions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import poptorch
from openipu.models.forecast import Policy
from openipu.models.layers import Format
from openipu.plan import Plan
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import TEST_SEED, TRAINING_SEED

SIDE, WORLDS, STEPS, UPDATES = 5, 64, 8, 120  # of the field; played at once; of an episode; of the policy
MOVES = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])
DISCOUNT = 0.8


class Field:
    """Worlds side by side: an agent and a goal on a field of cells each."""

    def __init__(self, generator: torch.Generator) -> None:
        self.agent = torch.randint(SIDE, (WORLDS, 2), generator=generator)
        self.goal = torch.randint(SIDE, (WORLDS, 2), generator=generator)

    def see(self) -> Tensor:
        """Where the agent is and where the goal is, as four rows of a one among zeros."""
        return torch.nn.functional.one_hot(torch.cat((self.agent, self.goal), 1), SIDE).flatten(1).float()

    def count_steps(self) -> Tensor:
        """How far each agent has to go."""
        return (self.agent - self.goal).abs().sum(1)

    def move(self, actions: Tensor) -> Tensor:
        """Do what the agents chose. Their rewards: 1 for a step nearer or for staying there, -1 for one farther."""
        before = self.count_steps()
        there = before == 0
        moved = (self.agent + MOVES[actions]).clamp(0, SIDE - 1)
        self.agent = torch.where(there[:, None], self.agent, moved)
        return torch.where(there, 1, before - self.count_steps()).float()


class PlayingCourse:
    """Actors play on the host with the weights of the moment; the learner is the IPU program."""

    calls = UPDATES

    def __init__(self) -> None:
        torch.manual_seed(0)
        self._generator = torch.Generator().manual_seed(TRAINING_SEED)
        self._policy = Policy(Format.FLOAT32, features=4 * SIDE, hidden=64, actions=len(MOVES))
        options = poptorch.Options().enableDeterminism()
        options.showCompilationProgressBar(False)
        optimizer = torch.optim.Adam(self._policy.parameters(), lr=5e-3)
        self._learner: Any = poptorch.trainingModel(self._policy, options, optimizer=optimizer)

    def plan(self) -> Plan:
        if not self._learner.isCompiled():
            self._learner.compile(*self._play())
        plan: Plan = self._learner.__openipu_compiled__().plan
        return plan

    def _play(self) -> tuple[Tensor, Tensor, Tensor]:
        """Episodes of all worlds: what was seen, what was done, and what came of it."""
        field = Field(self._generator)
        seen, done, rewards = [], [], []
        for _ in range(STEPS):
            seen.append(field.see())
            with torch.no_grad():
                chances = torch.nn.Module.__call__(self._policy, seen[-1]).softmax(-1)
            done.append(torch.multinomial(chances, 1, generator=self._generator)[:, 0])
            rewards.append(field.move(done[-1]))
        returns = torch.zeros(STEPS + 1, WORLDS)
        for step in reversed(range(STEPS)):
            returns[step] = rewards[step] + DISCOUNT * returns[step + 1]
        return torch.cat(seen), torch.cat(done), (1 - DISCOUNT) * returns[:-1].flatten()

    def advance(self) -> float:
        loss = float(self._learner(*self._play()))
        self._learner.copyWeightsToHost()
        return loss

    def measure(self) -> float:
        """The share of worlds whose agent stands on its goal in the end, when it does what it thinks best."""
        self._learner.detachFromDevice()
        options = poptorch.Options().enableDeterminism()
        options.showCompilationProgressBar(False)
        actor: Any = poptorch.inferenceModel(self._policy, options)
        try:
            field = Field(torch.Generator().manual_seed(TEST_SEED))
            for _ in range(STEPS):
                field.move(actor(field.see()).argmax(-1))
        finally:
            actor.destroy()
        return (field.count_steps() == 0).float().mean().item()

    def close(self) -> None:
        self._learner.destroy()


def _begin() -> Course:
    return PlayingCourse()


FAMILIES = (
    Family(
        name="reinforcement-learning",
        title="Reinforcement learning, actor and critic",
        area=Area.REINFORCEMENT,
        paper="Mnih et al. 2016",
        learns="the way to a goal on a field of 5 x 5 cells, from rewards alone",
        goal=Goal("goals reached", bar=0.9, guess=0.22),
        begin=_begin,
        figures=("GARDEN-POLICY",),
    ),
)
