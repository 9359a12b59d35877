"""What a call gives back to Lightning.

In: the results of all micro-batches of a call, in the order [device iteration, accumulation step, replica]. Out: those
that the options ask for, and one loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

import poptorch
from poptorch.options import choose_output_mode


def count_results(options: poptorch.Options, training: bool) -> int:
    """Micro-batches that give results in one call."""
    accumulation = options.Training.gradient_accumulation if training else 1
    return int(options.device_iterations * accumulation * options.replication_factor)


def select_results(output: Any, dimensions: Sequence[int], options: poptorch.Options, training: bool) -> Any:
    """The part of a step's results that the output mode brings back to the host."""
    count = count_results(options, training)
    mode = choose_output_mode(options, training)
    if count == 1 or mode == poptorch.OutputMode.All:
        return output
    leaves, spec = pytree.tree_flatten(output)
    left = iter(dimensions)
    chosen = [
        _select(leaf, next(left), count, mode, options) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
    ]
    return pytree.tree_unflatten(chosen, spec)


def _select(
    value: torch.Tensor, dimension: int, count: int, mode: poptorch.OutputMode, options: poptorch.Options
) -> torch.Tensor:
    replicas = options.replication_factor
    parts = value.reshape(count, *((-1, *value.shape[1:]) if dimension else ()))
    if mode == poptorch.OutputMode.Final:
        parts = parts[-replicas:]
    elif mode == poptorch.OutputMode.Sum:
        parts = parts.reshape(-1, replicas, *parts.shape[1:]).sum(0)
    else:  # every N-th device iteration
        period, iterations = options.output_return_period, options.device_iterations
        by_iteration = parts.reshape(iterations, count // iterations, *parts.shape[1:])
        parts = by_iteration[period - 1 :: period].flatten(0, 1)
    if dimension:
        return parts.flatten(0, 1)
    return parts[0] if len(parts) == 1 else parts


def reduce_loss(output: Any, selected: Any, options: poptorch.Options) -> Any:
    """`selected` with one loss for the last update: the mean over its accumulation steps and replicas.

    Output modes other than the default are the user's own choice, and are left as they are.
    """
    if not options.defaultOutputMode() and options.output_mode != poptorch.OutputMode.Final:
        return selected
    share = options.Training.gradient_accumulation * options.replication_factor
    if isinstance(output, torch.Tensor):
        return output.reshape(-1)[-share:].mean()
    if isinstance(output, Mapping) and isinstance(output.get("loss"), torch.Tensor):
        return type(selected)({**selected, "loss": output["loss"].reshape(-1)[-share:].mean()})
    return selected
