"""Gradients are changed by a function before they are applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openipu_tensorflow.ipu.optimizers.ipu_optimizer import IpuOptimizer


class MapGradientOptimizer(IpuOptimizer):
    """`gradient_mapping_function(gradient, variable)` gives the gradient that is applied."""

    def __init__(
        self,
        wrapped_optimizer: Any,
        gradient_mapping_function: Callable[[Any, Any], Any],
        name: str = "MapGradientOptimizer",
    ) -> None:
        super().__init__(wrapped_optimizer, name)
        if not callable(gradient_mapping_function):
            raise TypeError(f"gradient_mapping_function must be a function, not {gradient_mapping_function!r}.")
        self._gradient_mapping_function = gradient_mapping_function

    def compute_gradients(self, loss: Any, var_list: Any = None, **kwargs: Any) -> Any:
        pairs = super().compute_gradients(loss, var_list, **kwargs)
        return [
            (None if gradient is None else self._gradient_mapping_function(gradient, variable), variable)
            for gradient, variable in pairs
        ]
