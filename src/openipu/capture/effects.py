"""What a Python function does to the tensors that it is given.

In: a function that runs beside the graph, and its tensors. Out: which of them it writes in place: tried once on zeros
when a model is captured, and watched in every run, so that no write is lost without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from openipu.capture.active import find_active, set_active
from openipu.capture.record.torch_private import bypass_function_modes, pause_recording
from openipu.errors import InputError

Tensors = Sequence[torch.Tensor]


def find_writes(function: Callable[..., Any], inputs: Tensors) -> tuple[int, ...]:
    """The positions of the inputs that `function` writes, given zeros; none of one that fails on zeros."""
    zeros, _ = try_on_zeros(function, inputs)
    return tuple(index for index, tensor in enumerate(zeros) if tensor._version)


def try_on_zeros(function: Callable[..., Any], inputs: Tensors) -> tuple[list[torch.Tensor], Any]:
    """Zeros in the shapes of `inputs` after a call of `function` on them, and what it returned, or the error it raised.

    Random numbers that it draws are given back.
    """
    capture = find_active()
    with ExitStack() as stack:
        stack.callback(set_active, capture)
        set_active(None)
        for context in (bypass_function_modes(), pause_recording(), torch.no_grad()):
            stack.enter_context(context)
        if capture is not None and capture.twins is not None:
            stack.enter_context(capture.twins.stand_aside())
        stack.callback(torch.set_rng_state, torch.get_rng_state())
        zeros = [torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in inputs]
        try:
            return zeros, function(*zeros)
        except Exception as error:  # the user's function, on values that it was not written for: a run watches it
            return [torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in inputs], error


def own_written(tensors: Tensors, writes: Sequence[int]) -> list[torch.Tensor]:
    """The same tensors, those that will be written in memory of their own."""
    return [
        tensor.clone() if index in writes or tensor.is_inference() else tensor for index, tensor in enumerate(tensors)
    ]


@contextmanager
def refuse_writes(tensors: Tensors, what: str) -> Iterator[None]:
    """Inside, none of these tensors may be written."""
    watched = [tensor for tensor in tensors if not tensor.is_inference()]
    before = [tensor._version for tensor in watched]
    yield
    if any(tensor._version != version for tensor, version in zip(watched, before, strict=True)):
        raise InputError(
            f"{what} wrote to one of its inputs, and did not when it was captured: the program knows nothing of that "
            "write. Register the op with writes=[...], the numbers of the inputs that it changes."
        )
