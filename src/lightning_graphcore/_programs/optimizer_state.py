"""Optimizer state between the device and PyTorch's own optimizers.

In: an executor with state on its device, and an optimizer of torch. Out: `optimizer.state` as PyTorch itself would have
it, so that a checkpoint of an IPU run resumes on any accelerator; and the way back. Optimizers of poptorch keep the
device's state themselves.
"""

from __future__ import annotations

from typing import Any

import torch

from poptorch._optimizer.state import StateKeeper

_STEP = "step"


def read_state(executor: Any, optimizer: torch.optim.Optimizer, compiled: Any = None) -> None:
    """Device to optimizer."""
    compiled = executor._compiled if compiled is None else compiled
    if isinstance(optimizer, StateKeeper) or compiled is None:
        return
    names = _name_parameters(executor)
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        for key, value in compiled.executable.state.items():
            slot, _, name = key.partition(":")
            parameter = names.get(name)
            if parameter is not None and _owns(optimizer, parameter):
                optimizer.state[parameter][slot] = value.detach().clone()
        if isinstance(optimizer, torch.optim.RMSprop):  # it counts steps that nothing depends on
            for entry in optimizer.state.values():
                entry.setdefault(_STEP, torch.tensor(0.0))


def write_state(executor: Any, optimizer: torch.optim.Optimizer) -> None:
    """Optimizer to device, where it has any."""
    compiled = executor._compiled
    if isinstance(optimizer, StateKeeper) or compiled is None or not optimizer.state:
        return
    names = _name_parameters(executor)
    found: dict[str, torch.Tensor] = {}
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        for key, current in compiled.executable.state.items():
            slot, _, name = key.partition(":")
            entry = optimizer.state.get(names[name]) if name in names else None
            if not entry:
                continue
            value = entry.get(slot)
            if value is None and slot == _STEP:  # SGD: the momentum is there, so the first step is over
                value = 1.0
            if value is not None:
                found[key] = torch.as_tensor(value).to(current.dtype).reshape(current.shape)
    if found:
        compiled.executable.load_state(found)


def _name_parameters(executor: Any) -> dict[str, torch.nn.Parameter]:
    return dict(executor._model.named_parameters())


def _owns(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter) -> bool:
    return any(parameter is member for group in optimizer.param_groups for member in group["params"])
