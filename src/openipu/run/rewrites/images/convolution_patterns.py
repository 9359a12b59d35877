"""Convolutions of a graph, with what can be computed together with them.

In: a node of a draft, and the weights that a run only reads. Out: a `Convolution` in plain numbers and names, with the
batch norm behind it, whose weights `read_weights` folds into its own. `packed_convolutions.py` and
`direct_convolutions.py` compute them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import getitem
from typing import Any

import torch
from torch import fx

from openipu.graph import GraphInput, InputKind
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import find_only_user
from openipu.run.memory.device_memory import DeviceMemory

aten = torch.ops.aten

_NORMS = (aten._native_batch_norm_legit_no_training.default, aten.native_batch_norm.default)


@dataclass(frozen=True, eq=False)
class Norm:
    """A batch norm behind a convolution, by the names of what it reads."""

    scale: GraphInput | None
    shift: GraphInput | None
    mean: GraphInput
    variance: GraphInput
    epsilon: float

    @property
    def entries(self) -> tuple[GraphInput | None, ...]:
        return self.scale, self.shift, self.mean, self.variance


@dataclass(frozen=True, eq=False)
class Convolution:
    """One convolution and what is computed with it."""

    source: fx.Node
    weight: GraphInput
    bias: GraphInput | None
    strides: list[int]
    pads: list[int]
    dilations: list[int]
    groups: int
    shape: tuple[int, ...]  # of the convolution's own result
    nodes: tuple[fx.Node, ...]  # that it stands for, in order
    norm: Norm | None = None
    other: fx.Node | None = None  # is added to the result
    activation: str = "none"

    @property
    def last(self) -> fx.Node:
        """The node whose value it gives."""
        return self.nodes[-1]

    @property
    def names(self) -> list[str]:
        """Of the parameters and buffers that its weights are made of."""
        entries = (self.weight, self.bias, *(() if self.norm is None else self.norm.entries))
        return [entry.name for entry in entries if entry is not None]

    @property
    def multiplications(self) -> int:
        """Of one call."""
        return prod(self.shape) * prod(self.weight.shape[1:])


def list_held(draft: Draft) -> dict[str, GraphInput]:
    """Weights and buffers in float32 that a run only reads, by placeholder."""
    held = draft.list_held(InputKind.PARAMETER, InputKind.BUFFER)
    return {name: entry for name, entry in held.items() if entry.dtype is torch.float32}


def read_convolution(node: fx.Node, held: Mapping[str, GraphInput]) -> Convolution | None:
    """A convolution of images in float32, with weights that a run only reads."""
    if node.target is not aten.convolution.default or node.kwargs or len(node.args) != 9:
        return None
    source, weight, bias, strides, pads, dilations, transposed, _, groups = node.args
    value = node.meta.get("val")
    if transposed or not isinstance(source, fx.Node) or not isinstance(weight, fx.Node) or value is None:
        return None
    kernel, offset = held.get(weight.name), None
    if bias is not None:
        offset = held.get(bias.name) if isinstance(bias, fx.Node) else None
        if offset is None:
            return None
    if kernel is None or value.dim() != 4 or value.dtype is not torch.float32:
        return None
    window = _pair(strides), _pair(pads), _pair(dilations)
    return Convolution(source, kernel, offset, *window, groups, tuple(value.shape), (node,))  # type: ignore[arg-type]


def _pair(sizes: Any) -> list[int]:
    """One number for each of the two dimensions."""
    return list(sizes) if len(sizes) == 2 else list(sizes) * 2


def take_norm(found: Convolution, held: Mapping[str, GraphInput]) -> Convolution:
    """The same with the batch norm behind it, if nobody else reads the value between."""
    user = find_only_user(found.last)
    if user is None or user.target not in _NORMS or user.kwargs or user.args[0] is not found.last:
        return found
    taken = find_only_user(user)
    if taken is None or taken.target is not getitem or taken.args[1] != 0:
        return found
    *arguments, epsilon = user.args[1:]
    if user.target is aten.native_batch_norm.default and arguments[4]:  # in training
        return found
    entries: list[GraphInput | None] = []
    for value in arguments[:4]:
        entry = held.get(value.name) if isinstance(value, fx.Node) else None
        if value is not None and entry is None:
            return found
        entries.append(entry)
    scale, shift, mean, variance = entries
    if mean is None or variance is None:
        return found
    return replace(found, norm=Norm(scale, shift, mean, variance, float(epsilon)), nodes=(*found.nodes, user, taken))  # type: ignore[arg-type]


def read_weights(memory: DeviceMemory, plan: Convolution) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Weights and bias as the device holds them now, with the norm inside."""
    weight, bias = _read(memory, plan.weight), _read(memory, plan.bias)
    assert weight is not None
    if plan.norm is None:
        return weight, bias
    return _fold(weight, bias, plan.norm.epsilon, [_read(memory, entry) for entry in plan.norm.entries])


def _read(memory: DeviceMemory, entry: GraphInput | None) -> torch.Tensor | None:
    if entry is None:
        return None
    held = memory.parameters if entry.kind is InputKind.PARAMETER else memory.buffers[0]
    return held[entry.name].float()  # a half weight is held as it is, and read wide


def _fold(
    weight: torch.Tensor, bias: torch.Tensor | None, epsilon: float, norm: Sequence[torch.Tensor | None]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and bias with the norm inside, computed in double precision."""
    scale, shift, mean, variance = norm
    assert mean is not None
    assert variance is not None
    factor = torch.rsqrt(variance.double() + epsilon)
    factor = factor if scale is None else factor * scale.double()
    offset = -mean.double() if bias is None else bias.double() - mean.double()
    offset = offset * factor if shift is None else offset * factor + shift.double()
    return (weight.double() * factor.reshape(-1, 1, 1, 1)).to(weight.dtype), offset.to(weight.dtype)
