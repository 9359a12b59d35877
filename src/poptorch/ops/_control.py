"""`for_loop` and `cond`: loops and branches that the device takes by itself.

In: Python functions and lists of tensors. Out: a list of tensors. Each function is captured once, as a graph of its own
inside the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from openipu.capture import capture_branches, capture_loop, is_capturing, is_capturing_training
from poptorch.errors import createPoptorchError

Body = Callable[..., Any]


def for_loop(count: int, body: Body, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Run `body` `count` times, each time on what it returned before. Inputs are passed by value. Inference only.

    Outside of a capture `body` runs once, as in PopTorch.
    """
    _check_inputs("poptorch.for_loop expects input tensors (inputs) to be a list of tensors.", inputs)
    if not isinstance(count, int) or count < 0:
        raise ValueError(
            f"poptorch.for_loop runs a fixed number of times: count is an int of at least 0, not {count!r}."
        )
    if not is_capturing():
        return _list_results(body(*(tensor.clone() for tensor in inputs)))
    _check_inference("poptorch.for_loop()")
    return capture_loop(count, body, inputs)


def cond(
    condition: torch.Tensor,
    then_body: Body,
    then_inps: list[torch.Tensor],
    else_body: Body,
    else_inps: list[torch.Tensor],
) -> list[torch.Tensor]:
    """Run one of two functions, as `condition` says when the program runs. All by value. Inference only."""
    for inputs in (then_inps, else_inps):
        _check_inputs("poptorch.cond expects then_inps and else_inps tensors to be a list of tensors.", inputs)
    if not is_capturing():
        return _list_results(then_body(*then_inps) if condition else else_body(*else_inps))
    _check_inference("poptorch.cond()")
    return capture_branches(condition, then_body, then_inps, else_body, else_inps)


def _check_inputs(statement: str, inputs: Any) -> None:
    if not isinstance(inputs, list):
        raise ValueError(f"{statement} (Object is not list)")
    for index, tensor in enumerate(inputs):
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{statement} (Object contained in list at index {index} is not torch.tensor)")


def _check_inference(name: str) -> None:
    if is_capturing_training():
        raise createPoptorchError(
            f"{name} is only supported in inference. Write the loop or the choice in Python, or with torch.where()."
        )


def _list_results(returned: torch.Tensor | Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [returned] if isinstance(returned, torch.Tensor) else list(returned)
