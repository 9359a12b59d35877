"""Trees of tensors and of their data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

import popxl
from popxl import ops
from popxl_addons.dot_tree import DotTree

TensorMap = Mapping[popxl.Tensor, popxl.Tensor]


class NamedTensorData(DotTree[np.ndarray[Any, Any]]):
    """Host arrays by the names of the tensors that they are the values of."""


class NamedTensors(DotTree[popxl.Tensor]):
    """Tensors by name."""

    @property
    def tensors(self) -> tuple[popxl.Tensor, ...]:
        """All tensors, sorted by the names that they have in their graph."""
        return tuple(sorted(self.to_dict().values(), key=lambda tensor: tensor.name))

    @property
    def named_tensors(self) -> dict[str, popxl.Tensor]:
        """Full names to tensors."""
        return dict(self.to_dict())

    def remap(self, mapping: TensorMap) -> Self:
        """The same names for what ``mapping`` has for each tensor; it must have all."""
        return self.map(lambda tensor: mapping[tensor])


def print_named_tensors(named_tensors: NamedTensors) -> NamedTensors:
    """Print each tensor with its name when the program runs."""
    return NamedTensors.from_dict({name: ops.print_tensor(t, name) for name, t in named_tensors.to_dict().items()})
