"""What norms have in common: statistics over some dimensions, and the affine part for each channel.

In: activations with channels in dimension 1. Out: means, inverse deviations, normalised activations, gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from openipu.graph.mapped import FLOAT
from poplar import Graph, Tensor
from poplar._library import Target, call_library

Grouping = Callable[[torch.Tensor], torch.Tensor]  # activations -> [statistics, elements of each]


def statistics(
    graph: Graph,
    function: str,
    tensor: Tensor,
    epsilon: float,
    prog: Target,
    unbiased: bool,
    group: Grouping,
    name: str,
) -> tuple[Tensor, Tensor]:
    """Mean and inverse standard deviation of each group."""

    def traced(given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = group(given.to(torch.float32))
        mean = torch.mean(rows, 1)
        variance = torch.mean(rows * rows, 1) - mean * mean
        if unbiased:
            variance = variance * (rows.shape[1] / max(1, rows.shape[1] - 1))
        return mean, torch.rsqrt(variance + epsilon)

    made = call_library(graph, prog, function, traced, [tensor], types=[FLOAT, FLOAT], name=name)
    return made[0], made[1]


def whiten(
    graph: Graph,
    function: str,
    tensor: Tensor,
    mean: Tensor,
    deviation: Tensor,
    prog: Target,
    group: Grouping,
    name: str,
) -> Tensor:
    """(activations - mean) x inverse standard deviation."""

    def traced(given: torch.Tensor, center: torch.Tensor, inverse: torch.Tensor) -> torch.Tensor:
        rows = group(given.to(torch.float32))
        found = (rows - center.reshape(-1, 1)) * inverse.reshape(-1, 1)
        return ungroup(found, given, group).to(given.dtype)

    operands = [tensor, mean, deviation]
    return call_library(graph, prog, function, traced, operands, types=[tensor.elementType()], name=name)[0]


def ungroup(rows: torch.Tensor, like: torch.Tensor, group: Grouping) -> torch.Tensor:
    """Back to the order of the activations: groups are made of whole channels of one sample, or of all."""
    if _by_channel(group):
        shape = [like.shape[1], like.shape[0], *like.shape[2:]]
        return rows.reshape(shape).transpose(0, 1)
    return rows.reshape(like.shape)


def _by_channel(group: Grouping) -> bool:
    return getattr(group, "by_channel", False)


def scale_and_shift(
    graph: Graph, function: str, tensor: Tensor, gamma: Tensor, beta: Tensor, prog: Target, name: str
) -> Tensor:
    """gamma x activations + beta, for each channel."""

    def traced(given: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        shape = [1, -1, *[1] * (given.dim() - 2)]
        return given * scale.reshape(shape).to(given.dtype) + shift.reshape(shape).to(given.dtype)

    operands = [tensor, gamma, beta]
    return call_library(graph, prog, function, traced, operands, types=[tensor.elementType()], name=name)[0]


def parameter_gradients(
    graph: Graph, function: str, whitened: Tensor, gradient: Tensor, prog: Target, name: str
) -> tuple[Tensor, Tensor]:
    """Gradients of gamma and beta."""

    def traced(given: torch.Tensor, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        dims = [dimension for dimension in range(given.dim()) if dimension != 1]
        wide = grad.to(torch.float32)
        return torch.sum(given.to(torch.float32) * wide, dims), torch.sum(wide, dims)

    made = call_library(graph, prog, function, traced, [whitened, gradient], types=[FLOAT, FLOAT], name=name)
    return made[0], made[1]


def input_gradient(
    graph: Graph,
    function: str,
    whitened: Tensor,
    gradient: Tensor,
    deviation: Tensor,
    gamma: Tensor,
    prog: Target,
    group: Grouping,
    name: str,
) -> Tensor:
    """The gradient of the activations, through the statistics."""

    def traced(white: torch.Tensor, grad: torch.Tensor, inverse: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        shape = [1, -1, *[1] * (white.dim() - 2)]
        scaled = grad.to(torch.float32) * scale.reshape(shape)
        rows, values = group(scaled), group(white.to(torch.float32))
        centered = rows - torch.mean(rows, 1, keepdim=True) - values * torch.mean(rows * values, 1, keepdim=True)
        return ungroup(centered * inverse.reshape(-1, 1), white, group).to(grad.dtype)

    operands: list[Any] = [whitened, gradient, deviation, gamma]
    return call_library(graph, prog, function, traced, operands, types=[gradient.elementType()], name=name)[0]
