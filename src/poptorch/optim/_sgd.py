"""`poptorch.optim.SGD`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from poptorch._logging import logger
from poptorch.optim._base import CLIPPING, Optimizer, list_given


class SGD(Optimizer, torch.optim.SGD):
    """torch.optim.SGD with PopTorch's arguments. `lr` must be given.

    The momentum is stored apart from accumulated gradients; with `use_combined_accum` it is stored in the type of the
    weight, multiplied by `velocity_scaling`, which may be set for each group.
    """

    extra_arguments: ClassVar[Mapping[str, Any]] = {
        "loss_scaling": 1.0,
        "use_combined_accum": False,
        "accum_type": torch.float32,
        "velocity_accum_type": torch.float32,
        **CLIPPING,
    }

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float | None = None,
        dampening: float | None = None,
        weight_decay: float | None = None,
        nesterov: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        velocity_scaling: float | None = None,
        use_combined_accum: bool | None = None,
        accum_type: torch.dtype | None = None,
        velocity_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        given = list_given(locals())
        self._start(torch.optim.SGD, {name: value for name, value in given.items() if name != "velocity_scaling"})
        if use_combined_accum:
            chosen = 1.0 if velocity_scaling is None else velocity_scaling
            self.defaults["velocity_scaling"] = chosen
            for group in self.param_groups:
                group.setdefault("velocity_scaling", chosen)
            self.variable_attrs._allowed_attributes.append("velocity_scaling")
            if velocity_scaling is not None:
                self.variable_attrs.markAsVariable("velocity_scaling")
        elif velocity_scaling is not None:
            logger.warning(
                "velocity_scaling value ignored since use_combined_accum is False: "
                "the momentum is then scaled by loss_scaling."
            )
