"""Optimizer state between the device, the optimizer object and a checkpoint.

In: state of an executable by openipu's keys (`exp_avg:layer.weight`). Out: the names that PopTorch checkpoints have
(`Accl1___layer.weight`), and back. The state that is on its way to the device waits in the optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

PREFIXES = {  # name of a StateSlot -> prefix in a checkpoint
    "momentum_buffer": "Accl1___",
    "exp_avg": "Accl1___",
    "exp_avg_sq": "Accl2___",
    "step": "Step___",
}
IpuState = dict[str, torch.Tensor]
Reader = Callable[[], tuple[IpuState, IpuState]]


def rename_to_checkpoint(state: Mapping[str, torch.Tensor]) -> IpuState:
    """Names of a checkpoint for the state of an executable."""
    renamed = {}
    for key, value in state.items():
        slot, _, parameter = key.partition(":")
        renamed[PREFIXES.get(slot, f"{slot}___") + parameter] = value
    return renamed


def rename_to_device(state: Mapping[str, torch.Tensor], keys: Mapping[str, torch.Tensor]) -> IpuState:
    """The part of a checkpoint that this executable has, by its own keys."""
    known = {name: key for key, name in zip(keys, rename_to_checkpoint(dict(keys)), strict=True)}
    return {known[name]: value for name, value in state.items() if name in known}


def describe_parameters(spec_groups: Any, optimizer: torch.optim.Optimizer) -> IpuState:
    """The hyper-parameters of each parameter as a checkpoint names them."""
    values: IpuState = {"lossScaling_FLOAT": torch.tensor(float(getattr(optimizer, "loss_scaling", 1.0)))}
    settings = [*optimizer.param_groups, optimizer.defaults]
    for group, chosen in zip(spec_groups, settings, strict=False):
        for parameter in group.parameters:
            values[f"learningRate___specific___{parameter}"] = torch.tensor(float(chosen["lr"]))
            values[f"weightDecay___specific___{parameter}"] = torch.tensor(float(chosen["weight_decay"]))
    return values


class StateKeeper:
    """Mixed into poptorch's optimizers: a state_dict with the device's part."""

    _reader: Reader | None = None  # asks the executor that uses this optimizer
    _pending: IpuState | None = None  # waits for the next run
    _last: tuple[IpuState, IpuState] | None = None  # what the device had when the executor let go

    def state_dict(self) -> dict[str, Any]:
        """torch's own, plus `ipu_state` and `ipu_param`: None before a model with this optimizer is compiled."""
        merged: dict[str, Any] = dict(super().state_dict())  # type: ignore[misc]
        state, parameters = self._reader() if self._reader else self._last or (None, None)
        if self._pending is not None:
            state = {**(state or {}), **self._pending}
        return {**merged, "ipu_state": state, "ipu_param": parameters}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a checkpoint of an optimizer that ran here or on an IPU; the device has it from the next run on."""
        if not state_dict:
            raise RuntimeError("Cannot load optimizer state dictionary because it is empty.")
        if "ipu_state" not in state_dict or "ipu_param" not in state_dict:
            raise RuntimeError("Only IPU optimizer states can be loaded onto the IPU.")
        own = {key: value for key, value in state_dict.items() if key not in ("ipu_state", "ipu_param")}
        if "param_groups" in own:
            super().load_state_dict(own)  # type: ignore[misc]
        if state_dict["ipu_state"] is not None:
            self._pending = {**(self._pending or {}), **state_dict["ipu_state"]}

    def has_state(self) -> bool:
        """Is there state to write to the device, or on it?"""
        return bool(self._pending or self._reader or self._last)

    def connect(self, reader: Reader) -> None:
        """An executor uses this optimizer from now on. What the last one left is written to its device."""
        if self._last is not None:
            self._pending = {**self._last[0], **(self._pending or {})}
            self._last = None
        self._reader = reader

    def disconnect(self) -> None:
        """The executor lets go: keep what its device has."""
        if self._reader is not None:
            self._last, self._reader = self._reader(), None

    def take_pending(self) -> IpuState | None:
        """State to write to the device before the next run, once."""
        pending, self._pending = self._pending, None
        return pending
