"""Batch norm: statistics of each channel over the batch and the field."""

from __future__ import annotations

from typing import Any

import torch

from poplar import Graph, Tensor
from poplar._library import Target
from popnn import _norms


def _group(given: torch.Tensor) -> torch.Tensor:
    return given.transpose(0, 1).reshape(given.shape[1], -1)


_group.by_channel = True  # type: ignore[attr-defined]


def batchNormStatistics(
    graph: Graph, acts: Tensor, eps: float, prog: Target, unbiasedVarEstimate: bool = False, *rest: Any, name: str = ""
) -> tuple[Tensor, Tensor]:
    """Mean and inverse standard deviation."""
    return _norms.statistics(graph, "popnn::batchNormStatistics", acts, eps, prog, unbiasedVarEstimate, _group, name)


def batchNormWhiten(
    graph: Graph, acts: Tensor, mean: Tensor, invStdDev: Tensor, prog: Target, name: str = ""
) -> Tensor:
    return _norms.whiten(graph, "popnn::batchNormWhiten", acts, mean, invStdDev, prog, _group, name)


def batchNormalise(
    graph: Graph,
    acts: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    invStdDev: Tensor,
    prog: Target,
    name: str = "",
) -> tuple[Tensor, Tensor]:
    """The normalised activations, and the same before gamma and beta."""
    white = batchNormWhiten(graph, acts, mean, invStdDev, prog, name)
    return _norms.scale_and_shift(graph, "popnn::batchNormalise", white, gamma, beta, prog, name), white


def batchNormParamGradients(
    graph: Graph, actsWhitened: Tensor, gradsIn: Tensor, prog: Target, *rest: Any, name: str = ""
) -> tuple[Tensor, Tensor]:
    return _norms.parameter_gradients(graph, "popnn::batchNormParamGradients", actsWhitened, gradsIn, prog, name)


def batchNormGradients(
    graph: Graph,
    actsWhitened: Tensor,
    gradsIn: Tensor,
    invStdDev: Tensor,
    gamma: Tensor,
    prog: Target,
    *rest: Any,
    name: str = "",
) -> Tensor:
    return _norms.input_gradient(
        graph, "popnn::batchNormGradients", actsWhitened, gradsIn, invStdDev, gamma, prog, _group, name
    )
