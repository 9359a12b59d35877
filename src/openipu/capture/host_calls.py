"""Functions of the host in the middle of a graph.

In: a Python function and tensors of forward. Out: tensors of the recording. The function runs once on zeros to learn
the shapes of its results, with the model's own weights back in place, and then in every run on the values of that run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from openipu.capture.active import find_active, set_active
from openipu.capture.calls import call_in_graph, refuse_lost_gradient
from openipu.capture.failures import locate
from openipu.capture.formats import find_device_dtype
from openipu.capture.torch_private import bypass_function_modes, pause_recording
from openipu.errors import CaptureError, InputError, InternalError
from openipu.graph import FunctionCall


def call_host(function: Callable[..., Any], inputs: Sequence[torch.Tensor], name: str) -> list[torch.Tensor]:
    """Record a call of `function`; only while capturing. A single tensor that it returns comes back in a list."""
    capture = find_active()
    if capture is None or capture.twins is None:
        raise InternalError(f"The host function {name} was recorded without a capture. Please report it.")
    set_active(None)
    try:
        with bypass_function_modes(), pause_recording(), torch.no_grad(), capture.twins.stand_aside():
            zeros = [torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in inputs]
            results = [_narrow(value, name) for value in _list_values(function(*zeros))]
    finally:
        set_active(capture)

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        # Copies both ways, as between a device and its host: neither side sees the other's later writes.
        found = [_narrow(value, name) for value in _list_values(function(*(tensor.clone() for tensor in tensors)))]
        if [value.shape for value in found] != [value.shape for value in results]:
            raise InputError(
                f"The host function {name} returned shapes {[list(value.shape) for value in found]}, and "
                f"{[list(value.shape) for value in results]} when it was captured. Return the same shapes every time."
            )
        return [value.to(result.dtype, copy=True) for value, result in zip(found, results, strict=True)]

    refuse_lost_gradient(f"The host function {name}", inputs)
    return call_in_graph(FunctionCall(name, run, acts=True), inputs, results)


def _list_values(returned: Any) -> list[Any]:
    return list(returned) if isinstance(returned, list | tuple) else [returned]


def _narrow(value: Any, name: str) -> torch.Tensor:
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        what = f"tensor on {value.device}" if isinstance(value, torch.Tensor) else type(value).__name__
        raise CaptureError(locate(f"The host function {name} returned a {what}. Return tensors of the CPU only."))
    return value.detach().to(find_device_dtype(value.dtype))
