"""Training and evaluation in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TrainSpec:
    """What to train on, and for how long."""

    input_fn: Callable[..., Any]
    max_steps: int | None = None
    hooks: Sequence[Any] = ()


@dataclass(frozen=True)
class EvalSpec:
    """What to evaluate on. One process trains and evaluates in turns, so that there is nothing to delay."""

    input_fn: Callable[..., Any]
    steps: int | None = 100
    name: str | None = None
    hooks: Sequence[Any] = ()
    exporters: Sequence[Any] = ()
    start_delay_secs: int = 120
    throttle_secs: int = 600


def train_and_evaluate(estimator: Any, train_spec: TrainSpec, eval_spec: EvalSpec) -> tuple[Any, list[Any]]:
    """Train to the end, then evaluate: checkpoints in between are not waited for."""
    if eval_spec.exporters:
        raise NotImplementedError("EvalSpec.exporters: export a model with ipu.serving after training.")
    estimator.train(train_spec.input_fn, hooks=list(train_spec.hooks), max_steps=train_spec.max_steps)
    found = estimator.evaluate(
        eval_spec.input_fn, steps=eval_spec.steps, hooks=list(eval_spec.hooks), name=eval_spec.name
    )
    return found, []
