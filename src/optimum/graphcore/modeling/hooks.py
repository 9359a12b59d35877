"""Hooks that pipelined models put on their modules. They are plain objects, so that models can be copied and pickled.

In: a module. Out: handles; `remove()` takes the hook off again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

import poptorch


class _KeepOutputs:
    """Marks every tensor that the module returns, in tuples and dictionaries too."""

    def __call__(self, module: nn.Module, inputs: Any, outputs: Any) -> Any:
        return _keep(outputs)


def _keep(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return poptorch.recomputationCheckpoint(value)
    if isinstance(value, dict):  # a ModelOutput as well: it is changed in place
        for key, item in value.items():
            value[key] = _keep(item)
        return value
    if type(value) in (list, tuple):
        return type(value)(_keep(item) for item in value)
    return value


class _EnterAttribute:
    def __init__(self, context: poptorch.Attribute) -> None:
        self.context = context

    def __call__(self, module: nn.Module, inputs: Any) -> None:
        self.context.__enter__()


class _ExitAttribute:
    def __init__(self, context: poptorch.Attribute) -> None:
        self.context = context

    def __call__(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        self.context.__exit__(None, None, None)


def recomputation_checkpoint(module: nn.Module) -> RemovableHandle:
    """Keep what this module returns for backward; what is computed inside of it is made again."""
    return module.register_forward_hook(_KeepOutputs())


def outline_attribute(module: nn.Module, value: str) -> list[RemovableHandle]:
    """Ops of modules with different values share no code, even where they are otherwise alike."""
    context = poptorch.Attribute(__outline={"layer": value})
    return [
        module.register_forward_pre_hook(_EnterAttribute(context)),
        module.register_forward_hook(_ExitAttribute(context), always_call=True),
    ]
