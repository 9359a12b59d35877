"""The arithmetic of norms: statistics of groups of activations, and the affine part for each channel.

In: activations with channels in dimension 1. Out: means, inverse deviations, normalised activations, gradients.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from openipu.graph.mapped import FLOAT
from poplar import Graph, Tensor
from poplar._errors import poplar_error
from poplar._library import Target, call_library

Grouping = Callable[[torch.Tensor], torch.Tensor]  # activations -> [statistics, elements of each]


def by_channel(given: torch.Tensor) -> torch.Tensor:
    """Each channel over the batch and the field."""
    return given.transpose(0, 1).reshape(given.shape[1], -1)


def by_groups(count: int) -> Grouping:
    """So many groups of channels of each sample."""

    def group(given: torch.Tensor) -> torch.Tensor:
        if given.shape[1] % count:
            raise poplar_error(f"{given.shape[1]} channels cannot be divided into {count} groups.")
        return given.reshape(given.shape[0] * count, -1)

    return group


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
    if group is by_channel:
        shape = [like.shape[1], like.shape[0], *like.shape[2:]]
        return rows.reshape(shape).transpose(0, 1)
    return rows.reshape(like.shape)


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
    gamma: Tensor | None,
    prog: Target,
    group: Grouping,
    name: str,
) -> Tensor:
    """The gradient of the activations, through the statistics; without gamma, of what comes before it."""

    def traced(white: torch.Tensor, grad: torch.Tensor, inverse: torch.Tensor, *scale: torch.Tensor) -> torch.Tensor:
        scaled = grad.to(torch.float32)
        if scale:
            scaled = scaled * scale[0].reshape([1, -1, *[1] * (white.dim() - 2)])
        rows, values = group(scaled), group(white.to(torch.float32))
        centered = rows - torch.mean(rows, 1, keepdim=True) - values * torch.mean(rows * values, 1, keepdim=True)
        return ungroup(centered * inverse.reshape(-1, 1), white, group).to(grad.dtype)

    operands = [whitened, gradient, deviation, *([] if gamma is None else [gamma])]
    return call_library(graph, prog, function, traced, operands, types=[gradient.elementType()], name=name)[0]
