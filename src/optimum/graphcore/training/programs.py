"""The programs of a trainer: one that trains, and those that evaluate.

In: models that are spread over IPUs, options, batches. Out: executors, compiled once, and their results; a short batch
is filled up before it runs, and what belongs to the filling is cut off.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from optimum.utils import logging
from torch.utils import _pytree as pytree

import poptorch
from openipu.capture import register_internal_directory
from openipu.plan import Plan
from optimum.graphcore.data import pad_batch
from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError
from optimum.graphcore.training.state import describe_line
from optimum.graphcore.training.steps import EvaluationStep

logger = logging.get_logger(__name__)

register_internal_directory(__file__.rsplit("/", 2)[0])  # errors name the user's line, never one in here

SHAPE_ADVICE = (
    "A program takes batches of one shape. Pad all examples to the same length, for example with "
    'padding="max_length" in the tokenizer call, or pass a data collator that does.'
)


def compile_program(executor: Any, batch: dict[str, Any], purpose: str) -> float:
    """Compile for batches like this one, unless that is done; how many seconds it took."""
    if executor.isCompiled():
        return 0.0
    logger.info("Compiling Model...")
    started = time.perf_counter()
    try:
        executor.compile(**batch)
    except poptorch.Error as error:
        if "gradientAccumulation must be" not in str(error):
            raise
        raise IncompatibleIPUConfigError(
            f"{error} Raise `gradient_accumulation_steps` of the training arguments or of the IPUConfig."
        ) from error
    seconds = time.perf_counter() - started
    logger.info("Compiled/Loaded model in %.2f secs", seconds)
    plan = read_plan(executor)
    if plan is not None:
        logger.info(describe_line(purpose, plan))
    return seconds


def read_plan(executor: Any) -> Plan | None:
    """The plan of a compiled program."""
    compiled = getattr(executor, "_compiled", None)
    return None if compiled is None else compiled.plan


def run_program(executor: Any, batch: dict[str, Any]) -> Any:
    """One call; a batch of another shape than the first gets an error that says what to do."""
    try:
        return executor(**batch)
    except poptorch.Error as error:
        if "mismatch" not in str(error):
            raise
        raise ValueError(f"{str(error).splitlines()[0]}. {SHAPE_ADVICE}") from error


@dataclass(eq=False)
class Evaluator:
    """Runs a model for evaluation: one program for each kind of result, over the same weights."""

    model: Any
    options: poptorch.Options
    rows: int  # examples in one call
    compute_loss: Callable[..., Any]
    _programs: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def eval(self) -> Evaluator:
        """The model is in evaluation mode already; trainers of Transformers ask for it."""
        return self

    @property
    def programs(self) -> list[Any]:
        return list(self._programs.values())

    def refresh(self) -> None:
        """The weights of the model have changed: let every program have them."""
        for program in self._programs.values():
            if program.isCompiled() and program.isAttachedToDevice():
                program.copyWeightsToDevice()

    def prepare(self, batch: dict[str, Any], with_loss: bool, loss_only: bool, ignored: tuple[str, ...]) -> float:
        """Compile the program that such a batch needs; how many seconds it took."""
        program = self._find_program(batch, with_loss, loss_only, ignored)
        return compile_program(program, pad_batch(batch, self.rows), "evaluation")

    def run(
        self, batch: dict[str, Any], with_loss: bool, loss_only: bool, ignored: tuple[str, ...]
    ) -> tuple[torch.Tensor | None, tuple[Any, ...]]:
        """The loss of each example's micro-batch, and the predictions."""
        given = max(value.shape[0] for value in batch.values() if isinstance(value, torch.Tensor) and value.dim())
        program = self._find_program(batch, with_loss, loss_only, ignored)
        outputs = run_program(program, pad_batch(batch, self.rows))
        losses = None
        if with_loss:
            micro_batches = outputs[0].reshape(-1)
            losses = micro_batches.repeat_interleave(-(-self.rows // len(micro_batches)))[:given].clone()
            outputs = outputs[1:]
        return losses, pytree.tree_map(lambda value: self._cut(value, given), tuple(outputs))

    def _cut(self, value: Any, given: int) -> Any:
        fits = isinstance(value, torch.Tensor) and value.dim() > 0 and value.shape[0] == self.rows
        return value[:given] if fits else value

    def _find_program(self, batch: dict[str, Any], with_loss: bool, loss_only: bool, ignored: tuple[str, ...]) -> Any:
        key = (with_loss, loss_only, ignored, tuple(sorted(batch)))
        if key not in self._programs:
            step = EvaluationStep(self.model, self.compute_loss, with_loss, loss_only, ignored).eval()
            self._programs[key] = poptorch.inferenceModel(step, self.options)
        return self._programs[key]

    def detach(self) -> None:
        """Leave the IPUs to other programs."""
        for program in self._programs.values():
            if program.isCompiled() and program.isAttachedToDevice():
                program.detachFromDevice()
