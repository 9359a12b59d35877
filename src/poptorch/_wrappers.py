"""`trainingModel` and `inferenceModel`: a user's model becomes a `PoplarExecutor`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from openipu.capture import hold_models
from openipu.errors import ArchiveError
from poptorch import optim
from poptorch._export import read_program, unpickle_objects
from poptorch._poplar_executor import PoplarExecutor
from poptorch._weights import ALREADY_WRAPPED, is_wrapped
from poptorch.enums import ConnectionType
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
    chosen = _copy_options(options, training=True)
    with hold_models():  # a copy takes over the very dictionaries of its tensors
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
            message += (
                " Use poptorch.Options().deviceIterations to process a sufficient number of batches each run for "
                "pipelined execution instead."
            )
        raise createPoptorchError(message)
    # Also what the executor calls its model: eval() on it must not touch the model that another executor trains.
    with hold_models():  # a copy takes over the very dictionaries of its tensors
        own = copy.copy(user_model)
        return PoplarExecutor(own, own, chosen, training=False)


def load(filename: str, edit_opts_fn: Callable[[Options], None] | None = None) -> PoplarExecutor:
    """The model, options and executable of a file written with export_model=True.

    The file holds a pickle of the user's model, which is run as such: load files of your own only.
    """
    try:
        saved = read_program(filename)
    except ArchiveError as error:
        raise AssertionError(f"Invalid file {filename}: {error}") from error
    assert saved.model is not None, (
        f"{filename} was created with 'export_model=False': create the model in Python, wrap it, and call "
        "loadExecutable(filename) on it."
    )
    objects = unpickle_objects(saved.model)
    options = objects["options"].clone()
    if options.connection_type == ConnectionType.Never:
        options.connectionType(ConnectionType.Always)
    options.deleteIfExists("ipu_version")
    if edit_opts_fn is not None:
        edit_opts_fn(options)
    if saved.training:
        executor = trainingModel(objects["model"], options, objects["optimizer"])
    else:
        executor = inferenceModel(objects["model"], options)
    executor.loadExecutable(filename)
    return executor


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
