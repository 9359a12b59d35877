"""Hamiltonian Monte Carlo (Neal 2011): samples of the weights of a linear model, given what was observed.

In: observations and step sizes. Out: a module that moves many chains on at once. Gradients are written out, so that a
transition is one static program: leaps along the gradient, then a choice between the new place and the old.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from openipu.models.layers import Format


class HamiltonianSampler(nn.Module):
    """Weights with a normal prior, observations with normal noise."""

    def __init__(
        self,
        form: Format,
        *,
        observations: int = 8192,
        features: int = 256,
        leaps: int = 10,
        step: float = 0.01,
        noise: float = 1.0,
        transitions: int = 1,
    ) -> None:
        super().__init__()
        self.leaps, self.step, self.noise, self.transitions = leaps, step, noise, transitions
        self.inputs: Tensor
        self.answers: Tensor
        self.register_buffer("inputs", torch.zeros(observations, features, dtype=form.dtype))
        self.register_buffer("answers", torch.zeros(observations, dtype=form.dtype))

    def forward(self, places: Tensor) -> Tensor:
        """Chains at `places`, [chains, features], after each transition: [chains, transitions, features]."""
        visited = []
        for _ in range(self.transitions):
            places = self._move(places)
            visited.append(places)
        return torch.stack(visited, 1)

    def _measure(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Minus the logarithm of the posterior, up to a constant, and its gradient."""
        missed = places @ self.inputs.transpose(0, 1) - self.answers
        energy = 0.5 * (missed.square().sum(-1) / self.noise**2 + places.square().sum(-1))
        return energy, missed @ self.inputs / self.noise**2 + places

    def _move(self, places: Tensor) -> Tensor:
        push = torch.randn_like(places)
        energy, slope = self._measure(places)
        before = energy + 0.5 * push.square().sum(-1)
        now, speed, later = places, push, energy
        for _ in range(self.leaps):
            speed = speed - 0.5 * self.step * slope
            now = now + self.step * speed
            later, slope = self._measure(now)
            speed = speed - 0.5 * self.step * slope
        after = later + 0.5 * speed.square().sum(-1)
        accepted = torch.rand_like(before) < (before - after).exp()
        return torch.where(accepted[:, None], now, places)
