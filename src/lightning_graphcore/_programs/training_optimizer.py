"""An optimizer as a training program sees it.

In: an optimizer of the user's, and how Lightning wants gradients clipped. Out: the structure that the update is
compiled for.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from lightning_graphcore.precision import Clipping
from openipu.graph import OptimizerSpec
from poptorch._optimizer.device import DeviceOptimizer


class TrainingOptimizer(DeviceOptimizer):
    """An optimizer with Lightning's clipping, that trains its own parameters and no others."""

    clipping = Clipping()
    trains_rest = False  # PopTorch also trains parameters of no group

    def describe(self) -> OptimizerSpec:
        spec = super().describe()
        if self.clipping.value > 0:
            by_norm = self.clipping.by_norm
            spec = replace(
                spec,
                max_grad_norm=self.clipping.value if by_norm else spec.max_grad_norm,
                max_grad_value=None if by_norm else self.clipping.value,
            )
        self._spec = spec
        return spec

    def _list_members(self, optimizer: torch.optim.Optimizer) -> list[tuple[str, ...]]:
        members = super()._list_members(optimizer)
        return members if self.trains_rest else members[: len(optimizer.param_groups)]
