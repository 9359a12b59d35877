"""Weights of models that are spread over IPUs, in the form of the original class and back.

In: a pipelined model, a state dict. Out: a plain twin, or the same model with other values in the same tensors, so that
executors and optimizers that hold them go on.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from optimum.graphcore.training.random_state import preserve_random_state


def make_plain_twin(model: Any) -> Any:
    """A copy whose state dict is that of the original class."""
    with preserve_random_state():
        twin = copy.deepcopy(model)
        return twin.deparallelize() or twin


def adopt_weights(model: Any, plain: Any) -> None:
    """Write the weights of a plain model of the same class into a pipelined one."""
    with preserve_random_state():
        twin = copy.deepcopy(plain)
        twin.ipu_config = copy.deepcopy(model.ipu_config)
        twin.parallelize(**twin.ipu_config._parallelize_kwargs)
    copy_values(twin, model)


def share_weights(source: Any, target: Any) -> None:
    """Write the weights of a pipelined model into another one, which may be spread in another way."""
    if _list_shapes(source) == _list_shapes(target):
        copy_values(source, target)
    else:
        adopt_weights(target, make_plain_twin(source))


def copy_values(source: nn.Module, target: nn.Module) -> None:
    """Copy parameters and buffers by name, in the number format of the target."""
    values = dict(_list_tensors(source))
    with torch.no_grad():
        for name, tensor in _list_tensors(target):
            tensor.copy_(values[name])


def _list_tensors(model: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]


def _list_shapes(model: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in _list_tensors(model)}
