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
from openipu.run import Executable, list_parting_statistics
from openipu.trace import TRANSFER, span
from poptorch._logging import logger
from poptorch._weights.wrapping import WeightOwner, find_last_change, find_owners
from poptorch.errors import createPoptorchError


class DeviceWeights:
    """Moves the weights of one model between its host tensors and its executable."""

    def __init__(self, model: Any, executable: Executable) -> None:
        self._model = model
        self._executable = executable
        self._uploaded: tuple[tuple[int, int], ...] = ()
        self._host: tuple[torch.Tensor, ...] = ()  # what was uploaded last: no walk over the model for every call
        self._untrained_at: int | None = None  # nobody trained any of them after this change of owners

    def _parameters(self) -> dict[str, torch.Tensor]:
        return list_tensors(self._model, "_parameters") if isinstance(self._model, torch.nn.Module) else {}

    def _buffers(self) -> dict[str, torch.Tensor]:
        return list_tensors(self._model, "_buffers") if isinstance(self._model, torch.nn.Module) else {}

    def upload(self) -> None:
        """Host to device."""
        logger.debug("Writing weights from host to IPU memory")
        parameters, buffers = self._parameters(), self._buffers()
        self._host, self._untrained_at = (*parameters.values(), *buffers.values()), None
        with ExitStack() as held, span(TRANSFER, "weights to the device"):
            for owner in self._find_owners():  # no copy of another thread is half done meanwhile
                held.enter_context(owner.hold_device())
            self._executable.load_weights(parameters, buffers)
            self._uploaded = _list_versions(self._find_owners())

    def download(self) -> None:
        """Device to host."""
        logger.debug("Writing weights from IPU to host")
        with span(TRANSFER, "weights to the host"):
            self._executable.read_weights(self._parameters(), self._buffers())

    def upload_if_trained_elsewhere(self) -> bool:
        """Fetch what another executor trained of these weights since the last upload; says whether there was any."""
        owners = self._find_owners()
        if not owners and not self._uploaded:  # as in every call of a model that nobody trains
            return False
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

    def warn_of_parting_statistics(self) -> None:
        """Say that replicas come to differ, where nobody asked for it."""
        program, options = self._executable.program, self._executable.options
        names = list_parting_statistics(program, options)
        if names:
            more = f" and {len(names) - 2} more" if len(names) > 2 else ""
            logger.warning(
                f"The {options.replicas} replicas of {program.name} each keep running statistics of their own "
                f"({', '.join(names[:2])}{more}). The host reads, saves and evaluates with those of replica 0. If that "
                "is what you want, say so with poptorch.Options().broadcastBuffers(False)."
            )

    def upload_buffers(self, names: Sequence[str]) -> None:
        """Host to device for some buffers; everything else stays as the device has it."""
        host = self._buffers()
        self._executable.load_buffers({name: host[name] for name in names})

    def _find_owners(self) -> list[WeightOwner]:
        change = find_last_change()
        if self._untrained_at == change:
            return []
        owners = sorted(find_owners(self._host), key=id)  # the order in which every thread takes their locks
        if not owners:
            self._untrained_at = change
        return owners


def _list_versions(owners: list[WeightOwner]) -> tuple[tuple[int, int], ...]:
    return tuple((id(owner), owner.host_weights_version) for owner in owners)
