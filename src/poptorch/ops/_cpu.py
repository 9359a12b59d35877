"""`CPU`: a function of the host in the middle of an inference graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from openipu.capture import call_host, is_capturing, is_capturing_training
from poptorch.errors import createPoptorchError
from poptorch.ops._checks import require_tensor


class CPU:
    """Call it in `forward` with tensors: the wrapped function runs on the host, on CPU tensors, in every run.

    It also runs once on zeros while the model is compiled, to learn the shapes of its results.
    """

    def __init__(self, layer_to_call: Callable[..., Any], ID: str) -> None:
        self._layer_to_call = layer_to_call
        self._ID = ID
        if isinstance(layer_to_call, torch.nn.Module):
            layer_to_call.requires_grad_(False)

    def __call__(self, *input: torch.Tensor) -> Any:
        if not is_capturing():
            return self._layer_to_call(*input)
        if is_capturing_training():
            raise createPoptorchError(
                f'CPU ops are only supported in inference graphs. Compute "{self._ID}" before or after the model.'
            )
        for tensor in input:
            require_tensor(tensor, f'The CPU op "{self._ID}" takes tensors only.')
        single = False

        def call(*tensors: torch.Tensor) -> Any:
            nonlocal single
            returned = self._layer_to_call(*tensors)
            single = not isinstance(returned, list | tuple)
            return returned

        results = call_host(call, input, self._ID)
        return results[0] if single else results
