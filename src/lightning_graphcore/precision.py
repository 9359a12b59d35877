"""`IPUPrecision`: number formats, and what of Lightning's optimizer step is left to the host.

In: "32-true", "16-mixed" or "16-true". Out: inputs and weights in those formats. Backward, clipping and the update are
part of the program that the device runs, so the hooks for them only take note of what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from lightning_graphcore._registration.packages import Package, TwinMeta
from lightning_graphcore.utils import _convert_fp_tensor, _fp_to_half

SUPPORTED = ("32-true", "16-mixed", "16-true")
_OLD_NAMES = {"32": "32-true", "16": "16-mixed"}  # of Lightning 1, also as numbers


def __getattr__(name: str) -> Any:
    if name == "IPUPrecision":
        from lightning_graphcore._registration.front_end import find_class

        return find_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@dataclass(frozen=True)
class Clipping:
    """How gradients are limited before the update; zero is no limit."""

    value: float = 0.0
    by_norm: bool = True


class PrecisionCore(metaclass=TwinMeta):
    """16-mixed: half activations, float32 weights. 16-true: half everywhere. An IPU has no bfloat16 and no float64."""

    package: Package
    strict = False
    clipping = Clipping()  # what the last call of `clip_gradients` asked for

    def __init__(self, precision: str | int) -> None:
        precision = _OLD_NAMES.get(str(precision), precision)
        if precision not in SUPPORTED:
            raise ValueError(
                f"`Trainer(accelerator='ipu', precision={precision!r})` is not supported."
                f" `precision` must be one of: {', '.join(SUPPORTED)}."
            )
        self.precision: Any = precision

    def convert_module(self, module: torch.nn.Module) -> torch.nn.Module:
        return module.half() if self.precision == "16-true" else module

    def convert_input(self, data: Any) -> Any:
        """Leave inputs as they are: they are cast when they go to the device, after the user's hooks."""
        return data

    def cast_batch(self, batch: Any) -> Any:
        """Floating-point tensors in the format of the activations. `16-true` leaves them to the user under `strict`,
        as the original does."""
        if self.precision == "16-true" and not self.strict:
            return _map_tensors(batch, lambda tensor: _convert_fp_tensor(tensor, torch.half))
        return _map_tensors(batch, lambda tensor: _fp_to_half(tensor, self.precision))

    def backward(self, tensor: torch.Tensor, model: Any, optimizer: Any = None, *args: Any, **kwargs: Any) -> None:
        """Nothing: the device has done it."""
        if self.package.is_overridden("backward", model):
            self._warn_of_backward()

    def _warn_of_backward(self) -> None:
        if not getattr(self, "_has_warned", False):
            self._has_warned = True
            self.package.warn(
                "`LightningModule.backward` is overridden, and not called: IPUs run backward as part of the compiled "
                "step. Scale the loss in `training_step` instead."
            )

    def optimizer_step(self, optimizer: Any, model: Any, closure: Callable[[], Any], **kwargs: Any) -> Any:
        """Run the closure, which runs the whole step on the device."""
        if isinstance(optimizer, torch.optim.LBFGS):
            raise self.package.configuration_error(
                "IPUs and the LBFGS optimizer are not compatible: it needs several losses for one update, and the "
                "update is compiled. Use SGD, Adam, AdamW or RMSprop."
            )
        result = closure()
        self._after_closure(model, optimizer)  # type: ignore[attr-defined]
        if result is None and model.automatic_optimization and self.strict:
            raise self.package.configuration_error(
                "Skipping backward by returning `None` from your `training_step` is not implemented for IPUs."
            )
        return result

    def clip_gradients(self, optimizer: Any, clip_val: float = 0.0, gradient_clip_algorithm: Any = "norm") -> None:
        """Note what is asked for: the strategy compiles it into the update."""
        if clip_val is None or clip_val <= 0:
            self.clipping = Clipping()
            return
        if self.strict:
            raise self.package.configuration_error("IPUs currently do not support clipping gradients.")
        self.clipping = Clipping(float(clip_val), str(getattr(gradient_clip_algorithm, "value", "norm")) == "norm")


def _map_tensors(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return pytree.tree_map(lambda leaf: function(leaf) if isinstance(leaf, torch.Tensor) else leaf, value)
