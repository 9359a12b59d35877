"""The part of a strategy that a single process on a host makes simple: ranks, devices, and nothing to reduce."""

from __future__ import annotations

from typing import Any

import torch

from lightning_graphcore._registration.packages import Package


class HostMixin:
    """One process drives all IPUs. Data stays on the host: programs fetch it themselves."""

    package: Package
    lightning_module: Any
    parallel_devices: list[torch.device] | None
    accelerator: Any
    precision_plugin: Any
    optimizers: list[torch.optim.Optimizer]
    model: Any

    def _find_trainer(self) -> Any:
        return getattr(self.lightning_module, "_trainer", None) if self.lightning_module is not None else None

    @property
    def root_device(self) -> torch.device:
        return torch.device("cpu")

    def model_to_device(self) -> None:
        """Nothing: programs copy the weights when they are compiled."""

    @property
    def is_global_zero(self) -> bool:
        return True

    @property
    def global_rank(self) -> int:
        return 0

    @property
    def world_size(self) -> int:
        return 1

    def reduce(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        return tensor

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:
        return decision

    def barrier(self, name: str | None = None) -> None:
        """There is nobody to wait for."""

    def all_gather(self, tensor: torch.Tensor, group: Any = None, sync_grads: bool = False) -> torch.Tensor:
        return tensor

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        return obj
