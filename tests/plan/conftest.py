"""Small programs for planner tests, captured from real modules."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from openipu.capture import describe_optimizer
from openipu.graph import RunOptions
from openipu.machine import System, resolve_system
from openipu.plan import Plan
from openipu.session import plan_model


class Perceptron(nn.Module):
    """Two linear layers with a loss."""

    def __init__(self, width: int = 64, hidden: int = 256, classes: int = 10) -> None:
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> object:
        logits = self.second(torch.relu(self.first(x)))
        if labels is None:
            return logits
        return logits, functional.cross_entropy(logits, labels)


PlanMaker = Callable[..., Plan]


@pytest.fixture
def make_plan() -> PlanMaker:
    """Plans a model: `make_plan(model, inputs, optimizer=…, system=…, **run options)`."""

    def build(
        model: nn.Module,
        inputs: tuple[object, ...],
        *,
        optimizer: torch.optim.Optimizer | None = None,
        system: System | str = "bow-2000",
        **options: object,
    ) -> Plan:
        spec = None
        if optimizer is not None:
            names = {id(parameter): name for name, parameter in model.named_parameters()}
            spec = describe_optimizer(optimizer, names)
        run = RunOptions(training=optimizer is not None, **options)  # type: ignore[arg-type]
        chosen = resolve_system(system) if isinstance(system, str) else system
        return plan_model(model, inputs, options=run, optimizer=spec, system=chosen)[1]

    return build


@pytest.fixture
def perceptron() -> Perceptron:
    return Perceptron()


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(16, 64), torch.randint(10, (16,))
