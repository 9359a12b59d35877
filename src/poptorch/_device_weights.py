"""The device's copy of a model's weights: when it is read back, and when it is written.

In: a model and its executable. Out: host tensors that are fresh when somebody looks, at the price of one copy for each
period in which training changed them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from openipu.run import Executable
from openipu.trace import TRANSFER, span
from poptorch._logging import logger
from poptorch._weights import WeightOwner, find_owners
from poptorch.errors import createPoptorchError


class DeviceWeights:
    """Moves the weights of one model between its host tensors and its executable."""

    def __init__(self, model: Any, executable: Executable) -> None:
        self._model = model
        self._executable = executable
        self._uploaded: tuple[tuple[int, int], ...] = ()

    def _parameters(self) -> dict[str, torch.Tensor]:
        return dict(self._model.named_parameters()) if isinstance(self._model, torch.nn.Module) else {}

    def _buffers(self) -> dict[str, torch.Tensor]:
        return dict(self._model.named_buffers()) if isinstance(self._model, torch.nn.Module) else {}

    def upload(self) -> None:
        """Host to device."""
        logger.debug("Writing weights from host to IPU memory")
        with span(TRANSFER, "weights to the device"):
            self._executable.load_weights(self._parameters(), self._buffers())
        self._uploaded = _list_versions(self._find_owners())

    def download(self) -> None:
        """Device to host."""
        logger.debug("Writing weights from IPU to host")
        with span(TRANSFER, "weights to the host"):
            self._executable.read_weights(self._parameters(), self._buffers())

    def upload_if_trained_elsewhere(self) -> bool:
        """Fetch what another executor trained of these weights since the last upload; says whether there was any."""
        owners = self._find_owners()
        for owner in owners:
            owner.copyWeightsToHostIfNeeded()
        if _list_versions(owners) == self._uploaded:
            return False
        self.upload()
        return True

    def check_updatable(self, names: Sequence[str]) -> None:
        """Refuse names of updatableNamedBuffers that are no buffers of the model."""
        host = self._buffers()
        unknown = [name for name in names if name not in host]
        if unknown:
            raise createPoptorchError(f"Buffers {unknown} of updatableNamedBuffers are not in the model: {list(host)}")

    def upload_buffers(self, names: Sequence[str]) -> None:
        """Host to device for some buffers; everything else stays as the device has it."""
        host = self._buffers()
        with torch.no_grad():
            parameters = {name: value.detach().clone() for name, value in self._parameters().items()}
            buffers = {name: value.detach().clone() for name, value in host.items()}
        self._executable.read_weights(parameters, buffers)
        self._executable.load_weights(parameters, buffers | {name: host[name] for name in names})

    def _find_owners(self) -> list[WeightOwner]:
        return find_owners((*self._parameters().values(), *self._buffers().values()))


def _list_versions(owners: list[WeightOwner]) -> tuple[tuple[int, int], ...]:
    return tuple((id(owner), owner.host_weights_version) for owner in owners)
