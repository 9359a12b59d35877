"""MCMC: what observations say of the weights of a model, by samples of their distribution."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import poptorch
from openipu.models.layers import Format
from openipu.models.sampler import HamiltonianSampler
from openipu.plan import Plan
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import TRAINING_SEED

OBSERVATIONS, FEATURES, CHAINS = 40, 6, 32
CALLS, TRANSITIONS, WARM = 60, 10, 10  # calls, transitions of one, calls that are not counted


class SamplingCourse:
    """Moves chains on, and compares what they visit with the posterior, which a linear model has in closed form."""

    calls = CALLS

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(TRAINING_SEED)
        self._sampler = HamiltonianSampler(
            Format.FLOAT32,
            observations=OBSERVATIONS,
            features=FEATURES,
            leaps=8,
            step=0.08,
            transitions=TRANSITIONS,
        )
        self._sampler.inputs.copy_(torch.randn(OBSERVATIONS, FEATURES, generator=generator))
        weights = torch.randn(FEATURES, generator=generator)
        noise = torch.randn(OBSERVATIONS, generator=generator)
        self._sampler.answers.copy_(self._sampler.inputs @ weights + noise)
        options = poptorch.Options().randomSeed(TRAINING_SEED).enableDeterminism()
        options.showCompilationProgressBar(False)
        self._program: Any = poptorch.inferenceModel(self._sampler.eval(), options)
        self._places = torch.zeros(CHAINS, FEATURES)
        self._visited: list[Tensor] = []

    def plan(self) -> Plan:
        if not self._program.isCompiled():
            self._program.compile(self._places)
        plan: Plan = self._program.__openipu_compiled__().plan
        return plan

    def advance(self) -> float:
        """Half the mean squared residual of the chains' weights."""
        visited = self._program(self._places)
        self._places = visited[:, -1].clone()
        self._visited.append(visited)
        missed = self._places @ self._sampler.inputs.T - self._sampler.answers
        return 0.5 * missed.square().mean().item()

    def measure(self) -> float:
        """The largest error of a mean or of a deviation, over the true deviation."""
        visited = torch.cat(self._visited[WARM:], 1).flatten(0, 1)
        inputs, answers = self._sampler.inputs, self._sampler.answers
        spread = torch.linalg.inv(inputs.T @ inputs + torch.eye(FEATURES))
        true = spread.diagonal().sqrt()
        means = (visited.mean(0) - spread @ inputs.T @ answers).abs() / true
        deviations = (visited.std(0) - true).abs() / true
        return torch.maximum(means, deviations).max().item()

    def close(self) -> None:
        self._program.destroy()


def _begin() -> Course:
    return SamplingCourse()


FAMILIES = (
    Family(
        name="mcmc",
        title="Hamiltonian Monte Carlo",
        area=Area.PROBABILITY,
        paper="Neal 2011",
        learns="the posterior of six weights from 40 observations, with 32 chains",
        goal=Goal("largest error of mean or deviation, in deviations", bar=0.1, guess=8.0, more_is_better=False),
        begin=_begin,
        figures=("GARDEN-MCMC",),
    ),
)
