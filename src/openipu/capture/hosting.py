"""Values of the host inside a capture: for those who translate a graph, and compute its constants as they go.

In: tensors, and ops on them. Out: whether a tensor is on the IPU; ops that run at once on the host; constants of the
program. Outside of a capture every tensor has its data, and nothing is to be done.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack

import torch

from openipu.capture.active import find_active
from openipu.capture.record.torch_private import bypass_function_modes, pause_recording


def is_on_ipu(tensor: torch.Tensor) -> bool:
    """Has it no value yet? Inside a capture a tensor of the IPU does not say itself that it is one without data."""
    with bypass_function_modes():
        return tensor.is_meta


def on_host() -> AbstractContextManager[object]:
    """Inside, ops run at once, on real tensors, and are not recorded."""
    stack = ExitStack()
    if find_active() is not None:
        stack.enter_context(bypass_function_modes())
        stack.enter_context(pause_recording())
    return stack


def lift(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the host as a constant of the program that is being captured; others as they are."""
    capture = find_active()
    if capture is None or is_on_ipu(tensor):
        return tensor
    return capture.recorder.lift_shared(tensor)
