"""The device's copy of a model's weights: when it is read back, and when it is written.

In: a model and its executable. Out: host tensors that are fresh when somebody looks, at the price of one copy for each
period in which training changed them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch

from openipu.capture import list_tensors
from openipu.graph import OutputKind
from openipu.run import Executable
from openipu.trace import TRANSFER, span
from poptorch._logging import logger
from poptorch._weights import WeightOwner, find_owners
from poptorch.errors import createPoptorchError

_WRITTEN = (OutputKind.BUFFER, OutputKind.PARAMETER)  # what a run may leave on the device
_UNCOUNTED = -1


class DeviceWeights:
    """Moves the weights of one model between its host tensors and its executable."""

    def __init__(self, model: Any, executable: Executable) -> None:
        self._model = model
        self._executable = executable
        self._uploaded: tuple[tuple[int, int], ...] = ()
        self._host: tuple[torch.Tensor, ...] = ()  # what was uploaded last: no walk over the model for every call
        self._host_versions: tuple[int, ...] = ()  # how often each had been written by then

    def _parameters(self) -> dict[str, torch.Tensor]:
        return list_tensors(self._model, "_parameters") if isinstance(self._model, torch.nn.Module) else {}

    def _buffers(self) -> dict[str, torch.Tensor]:
        return list_tensors(self._model, "_buffers") if isinstance(self._model, torch.nn.Module) else {}

    def upload(self) -> None:
        """Host to device."""
        logger.debug("Writing weights from host to IPU memory")
        parameters, buffers = self._parameters(), self._buffers()
        self._host = (*parameters.values(), *buffers.values())
        with ExitStack() as held, span(TRANSFER, "weights to the device"):
            for owner in self._find_owners():  # no copy of another thread is half done meanwhile
                held.enter_context(owner.hold_device())
            self._executable.load_weights(parameters, buffers)
            self._host_versions = () if self._executable.program.update is not None else _count_writes(self._host)
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
        parameters, host = self._parameters(), self._buffers()
        buffers = dict(host)
        if not self._rest_is_as_uploaded(names):
            with torch.no_grad():
                parameters = {name: value.detach().clone() for name, value in parameters.items()}
                buffers = {name: value.detach().clone() for name, value in buffers.items()}
            self._executable.read_weights(parameters, buffers)
        self._executable.load_weights(parameters, buffers | {name: host[name] for name in names})

    def _rest_is_as_uploaded(self, names: Sequence[str]) -> bool:
        """Whether host and device still have the same values, but for these buffers: then none need be read back."""
        program = self._executable.program
        written = {entry.name for entry in program.micro.outputs if entry.kind in _WRITTEN}
        if program.update is not None or not written <= set(names):
            return False
        named = {id(value) for name, value in self._buffers().items() if name in names}
        now = (*self._parameters().values(), *self._buffers().values())
        return len(now) == len(self._host) and all(
            id(tensor) in named or (tensor is uploaded and writes == before != _UNCOUNTED)
            for tensor, uploaded, writes, before in zip(
                now, self._host, _count_writes(now), self._host_versions, strict=True
            )
        )

    def _find_owners(self) -> list[WeightOwner]:
        return sorted(find_owners(self._host), key=id)  # the order in which every thread takes their locks


def _list_versions(owners: list[WeightOwner]) -> tuple[tuple[int, int], ...]:
    return tuple((id(owner), owner.host_weights_version) for owner in owners)


def _count_writes(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """How often each was written in place, where PyTorch counts that."""
    return tuple(_UNCOUNTED if tensor.is_inference() else tensor._version for tensor in tensors)
