"""`poptorch.optim.RMSprop`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from poptorch.optim._base import ACCUMULATION, Optimizer, list_given


class RMSprop(Optimizer, torch.optim.RMSprop):
    """torch.optim.RMSprop with PopTorch's arguments.

    With `use_tf_variant` it is TensorFlow's: the average of squares starts at one, epsilon is added under the square
    root, and the momentum holds the learning rate.
    """

    extra_arguments: ClassVar[Mapping[str, Any]] = {"loss_scaling": 1.0, **ACCUMULATION, "use_tf_variant": False}

    def __init__(
        self,
        params: Any,
        lr: float | None = None,
        alpha: float | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        momentum: float | None = None,
        centered: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        use_tf_variant: bool | None = None,
    ) -> None:
        given = list_given(locals())
        self._start(torch.optim.RMSprop, given)
