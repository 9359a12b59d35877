"""`trainingModel` and `inferenceModel`: a user's model becomes a `PoplarExecutor`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from poptorch import optim
from poptorch._poplar_executor import PoplarExecutor
from poptorch._weights import ALREADY_WRAPPED, is_wrapped
from poptorch.errors import createPoptorchError
from poptorch.options import Options, choose_output_mode
from poptorch.strategies import PipelinedExecution, ShardedExecution


def trainingModel(
    model: torch.nn.Module | PoplarExecutor,
    options: Options | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> PoplarExecutor:
    """An executor that trains: each call runs deviceIterations weight updates. The loss is computed in `forward`."""
    user_model = model.model if isinstance(model, PoplarExecutor) else model
    if not isinstance(user_model, torch.nn.Module):
        raise createPoptorchError(f"trainingModel takes a torch.nn.Module, not {type(user_model)}")
    if is_wrapped(user_model):
        raise RuntimeError(ALREADY_WRAPPED)
    if optimizer is None:
        optimizer = optim.SGD(user_model.parameters(), lr=0.01)
    optim.check_optimizer(optimizer)
    chosen = _copy_options(options, training=True)
    return PoplarExecutor(copy.copy(user_model), user_model, chosen, training=True, optimizer=optimizer)


def inferenceModel(
    model: torch.nn.Module | PoplarExecutor | Callable[..., Any], options: Options | None = None
) -> PoplarExecutor:
    """An executor that evaluates. It reads weights that a training executor of the same model changed."""
    user_model = model.model if isinstance(model, PoplarExecutor) else model
    chosen = _copy_options(options, training=False)
    if chosen.Training.gradient_accumulation != 1:
        message = (
            "You must set poptorch.Options().Training.gradientAccumulation to 1 or leave it as its default value (1) "
            "when running a poptorch.inferenceModel()."
        )
        strategy = chosen._execution_strategy
        if isinstance(strategy, PipelinedExecution) and not isinstance(strategy, ShardedExecution):
            message += " Use poptorch.Options().deviceIterations to process a sufficient number of batches instead."
        raise createPoptorchError(message)
    return PoplarExecutor(copy.copy(user_model), user_model, chosen, training=False)


def _copy_options(options: Options | None, training: bool) -> Options:
    """A frozen copy with its output mode decided. The user's own object freezes too: later changes would be lost."""
    if options is None:
        options = Options()
    if not isinstance(options, Options):
        raise createPoptorchError(f"Invalid type: 'options' is of type {type(options)} (Expected poptorch.Options)")
    options._freeze()
    chosen = options.clone()
    chosen.set(output_mode=choose_output_mode(options, training))
    chosen._freeze()
    return chosen
