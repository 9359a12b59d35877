"""Small tools with the names that the original has: the module that leads forward to a step, and casts to half."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

_STEPS = {  # flag of the trainer -> step
    "training": "training_step",
    "testing": "test_step",
    "sanity_checking": "validation_step",
    "validating": "validation_step",
    "predicting": "predict_step",
}
_HALF_FORMATS = {"16-mixed": torch.half, "bf16-mixed": torch.bfloat16}


class _LightningModuleWrapperBase(nn.Module):
    """`forward` is the step that the trainer is in; without a trainer it is the module's own."""

    def __init__(self, forward_module: Any) -> None:
        super().__init__()
        inner = getattr(forward_module, "module", None)
        is_module = hasattr(forward_module, "training_step") or hasattr(inner, "training_step")
        if not is_module:
            raise ValueError(
                f"A `LightningModule`, or a module that holds one as `.module`, is expected and not a "
                f"{type(forward_module).__qualname__}."
            )
        if isinstance(forward_module, nn.Module):
            self.model = forward_module
        else:  # a stand-in in tests
            self.__dict__["model"] = forward_module

    @property
    def lightning_module(self) -> Any:
        return self.model if hasattr(self.model, "training_step") else self.model.module

    def find_step(self) -> str | None:
        """The name of the step that the trainer is in."""
        trainer = self.lightning_module._trainer
        if trainer is None:
            return None
        return next((step for flag, step in _STEPS.items() if getattr(trainer, flag)), None)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        step = self.find_step()
        return (self.model if step is None else getattr(self.model, step))(*inputs, **kwargs)


def _fp_to_half(tensor: torch.Tensor, precision: str) -> torch.Tensor:
    found = _HALF_FORMATS.get(str(precision))
    return tensor if found is None else _convert_fp_tensor(tensor, found)


def _convert_fp_tensor(tensor: torch.Tensor, dst_type: torch.dtype) -> torch.Tensor:
    return tensor.to(dst_type) if torch.is_floating_point(tensor) else tensor
