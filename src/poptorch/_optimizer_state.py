"""The device's part of an optimizer's `state_dict`, mixed into poptorch's optimizers.

In: a source that reads the device, set by the executor that uses the optimizer, or a checkpoint. Out: `ipu_state` and
`ipu_param`, read once after each run at most; what was loaded waits for the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from poptorch._logging import logger

IpuState = dict[str, torch.Tensor]
Source = Callable[[], tuple[IpuState, IpuState]]
DEVICE_KEYS = ("ipu_state", "ipu_param")


class StateKeeper:
    """What is known of the device's state, on the host."""

    ipu_state_is_dirty = False  # the host has state that the device must be given before it runs
    host_state_is_dirty = False  # the device has run since its state was last read
    _ipu_values_pending = False  # loaded values, too, and no optimizer was set since
    _ipu_state: IpuState | None = None
    _ipu_param: IpuState | None = None
    _source: Source | None = None
    _device_lock: AbstractContextManager[object] = nullcontext()  # of the executor: nothing runs while it is held

    def state_dict(self) -> dict[str, Any]:
        """torch's own, plus `ipu_state` and `ipu_param`: None before a model with this optimizer is on a device."""
        with self._device_lock:
            self.refresh()
            own: dict[str, Any] = super().state_dict()  # type: ignore[misc]
            return {**own, "ipu_state": self._ipu_state, "ipu_param": self._ipu_param}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a checkpoint of an optimizer that ran here or on an IPU; the device has it from the next run on."""
        if not state_dict:
            raise RuntimeError("Cannot load optimizer state dictionary because it is empty.")
        if any(key not in state_dict for key in DEVICE_KEYS):
            raise RuntimeError("Only IPU optimizer states can be loaded onto the IPU.")
        own = {key: value for key, value in state_dict.items() if key not in DEVICE_KEYS}
        with self._device_lock:
            if "param_groups" in own:
                super().load_state_dict(own)  # type: ignore[misc]
            self._ipu_state, self._ipu_param = (_copy(state_dict[key]) for key in DEVICE_KEYS)
            self.ipu_state_is_dirty = self._ipu_values_pending = self.has_state()
            self.host_state_is_dirty = False

    def get_state_dict(self) -> dict[str, Any]:
        return self.state_dict()

    def set_state_dict(self, state: Mapping[str, Any]) -> None:
        self.load_state_dict(state)

    def has_state(self) -> bool:
        """Whether the host has state to write to a device."""
        return self._ipu_state is not None and self._ipu_param is not None

    def refresh(self) -> None:
        """Read the device, if it has run since the last time."""
        with self._device_lock:
            if self._source is None:
                return
            if not self.host_state_is_dirty:
                logger.debug("Using cached optimiser state dict")
                return
            if type(self) is not StateKeeper:
                logger.debug("Writing optimiser state tensors from IPU to host.")
            self._ipu_state, self._ipu_param = self._source()
            self.host_state_is_dirty = False

    def copy_device_state(self) -> dict[str, Any]:
        """What a copy of the optimizer takes along: state of its own, to be written to the device that gets it."""
        with self._device_lock:
            self.refresh()
            return {
                "_ipu_state": _copy(self._ipu_state),
                "_ipu_param": _copy(self._ipu_param),
                "_ipu_values_pending": self._ipu_values_pending,
                "ipu_state_is_dirty": self.has_state(),
            }


def _copy(state: Mapping[str, torch.Tensor] | None) -> IpuState | None:
    return None if state is None else dict(state)
