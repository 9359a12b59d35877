"""A small version in PopTorch: what is trained, on which data, and how its answers are judged.

In: a `Lesson`. Out: a `Course`. Data are drawn anew for every batch from a generator with a fixed seed, and judged on
draws of another seed: what is measured is what was learned, not what was remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import poptorch
from openipu.plan import Plan

Batch = tuple[Tensor, ...]
TRAINING_SEED, TEST_SEED = 1, 2


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Lesson:
    """What a course is made of."""

    train: nn.Module  # takes a batch, gives its loss
    ask: nn.Module  # takes the first `inputs` tensors of a batch, gives answers; shares weights with `train`
    inputs: int
    taught: int | None = None  # tensors of a batch that `train` takes; None: all; what follows is for the judge
    draw: Callable[[torch.Generator], Batch]
    judge: Callable[[Any, Batch], float]  # answers and their batch -> quality
    optimizer: torch.optim.Optimizer
    steps: int
    steps_a_call: int = 10
    test_batches: int = 8


class LessonCourse:
    """Trains a lesson as a PopTorch program, then asks it as another."""

    def __init__(self, lesson: Lesson) -> None:
        self._lesson = lesson
        self._generator = torch.Generator().manual_seed(TRAINING_SEED)
        options = poptorch.Options().deviceIterations(lesson.steps_a_call).randomSeed(TRAINING_SEED)
        options.enableDeterminism()
        options.showCompilationProgressBar(False)
        lesson.train.train()
        self._training: Any = poptorch.trainingModel(lesson.train, options, optimizer=lesson.optimizer)

    @property
    def calls(self) -> int:
        return -(-self._lesson.steps // self._lesson.steps_a_call)

    def _draw_call(self) -> Batch:
        batches = [self._lesson.draw(self._generator) for _ in range(self._lesson.steps_a_call)]
        return tuple(torch.cat(parts) for parts in zip(*batches, strict=True))[: self._lesson.taught]

    def plan(self) -> Plan:
        if not self._training.isCompiled():
            self._training.compile(*self._draw_call())
        plan: Plan = self._training.__openipu_compiled__().plan
        return plan

    def advance(self) -> float:
        return float(self._training(*self._draw_call()))

    def measure(self) -> float:
        lesson = self._lesson
        if self._training.isAttachedToDevice():
            self._training.detachFromDevice()
        lesson.ask.eval()
        options = poptorch.Options().enableDeterminism()
        options.showCompilationProgressBar(False)
        asked: Any = poptorch.inferenceModel(lesson.ask, options)
        generator = torch.Generator().manual_seed(TEST_SEED)
        try:
            batches = [lesson.draw(generator) for _ in range(lesson.test_batches)]
            found = [lesson.judge(asked(*batch[: lesson.inputs]), batch) for batch in batches]
        finally:
            asked.destroy()
        return sum(found) / len(found)

    def close(self) -> None:
        self._training.destroy()


def score_classes(logits: Tensor, batch: Batch) -> float:
    """The share of right answers, where the last tensor of a batch has them."""
    return (logits.argmax(-1) == batch[-1]).float().mean().item()
