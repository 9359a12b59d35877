"""Weights between host and device, for an executor.

In: a compiled program and the tensors of a model. Out: the methods that copy them, mixed into `PoplarExecutor`. Copies
to the host are made when somebody looks, once for each period in which training changed the weights.
"""

from __future__ import annotations

from typing import Any

import torch

from openipu.session import Compiled
from poptorch._device_weights import DeviceWeights
from poptorch._locking import Locked, with_device
from poptorch._logging import logger
from poptorch.errors import createPoptorchError, translate_errors
from poptorch.options import Options


class Transfers(Locked):
    """Copies, for an executor that has the members below."""

    host_weights_version = 0  # rises with each copy of weights to the host
    _attached: bool
    _options: Options
    _user_model: Any

    def __init__(self) -> None:
        super().__init__()
        self._host_weights_stale = False
        self._copying = False  # the copy touches the very tensors that ask for it

    def _require_compiled(self) -> tuple[Compiled, DeviceWeights]:
        raise NotImplementedError

    def copyWeightsToHost(self) -> None:
        """Device to host, now."""
        with self._device_lock:  # alone: whoever looks at a trained tensor may come by here
            _, weights = self._require_compiled()
            before, self._copying = self._copying, True
            try:
                with translate_errors():
                    weights.download()
            finally:
                self._copying = before
            self._host_weights_stale = False
            self.host_weights_version += 1

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Device to host if training changed the weights since the last copy; says whether it did."""
        if not self._host_weights_stale:  # without a lock: each use of a trained tensor asks
            return False
        with self._device_lock:
            if self._copying or not self._host_weights_stale:
                return False
            logger.debug("Implicit copyWeightsToHost()")
            self._copying = True
            try:
                self.copyWeightsToHost()
            finally:
                self._copying = False
            self._host_weights_stale = False
            return True

    @with_device
    def copyWeightsToDevice(self) -> None:
        """Host to device, now. What training did since the last copy to the host is lost."""
        _, weights = self._require_compiled()
        self._refuse_reentry()
        self._host_weights_stale = False
        with translate_errors():
            weights.upload()

    @with_device
    def copyNamedBuffersToDevice(self) -> None:
        """Host to device for the buffers of `Options.updatableNamedBuffers`."""
        _, weights = self._require_compiled()
        self._refuse_reentry()
        names = self._options.get("updatable_named_buffers")
        if not names:
            raise createPoptorchError("No named buffers marked as updatable via updatableNamedBuffers option")
        weights.upload_buffers(names)

    @with_device
    def load_state_dict(self, state_dict: dict[str, torch.Tensor], strict: bool = True) -> Any:
        """Load into the user's model, and onto the device if one is attached."""
        result = self._user_model.load_state_dict(state_dict, strict)
        if self._attached:
            self.copyWeightsToDevice()
        return result
