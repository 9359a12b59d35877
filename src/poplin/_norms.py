"""Norms of each channel, in parts: statistics, whitening, scale and shift, and the gradient of each part.

In: activations with channels in dimension 1. Out: tensors. Sums are float32, and stable, in any case.
"""

from __future__ import annotations

from typing import Any

import torch

from poplar import Graph, Tensor, Type
from poplar._library import Target, call_library
from poplar._linear import mapTensorLinearly
from poplin import _statistics
from poplin._statistics import by_channel


def createNormGamma(graph: Graph, acts: Tensor, *rest: Any, name: str = "gamma") -> Tensor:
    """`(graph, acts, [type,] name)`: one number for each channel."""
    element = next((value for value in rest if isinstance(value, Type)), acts.elementType())
    label = next((value for value in rest if isinstance(value, str) and value), name)
    made = graph.addVariable(element, [acts.dim(1)], label)
    mapTensorLinearly(graph, made)
    return made


def createNormBeta(graph: Graph, acts: Tensor, *rest: Any, name: str = "beta") -> Tensor:
    return createNormGamma(graph, acts, *rest, name=name)


def createNormParams(graph: Graph, acts: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return createNormGamma(graph, acts, *rest), createNormBeta(graph, acts, *rest)


def normStatistics(
    graph: Graph, acts: Tensor, eps: float, prog: Target, unbiasedVarEstimate: bool = False, *rest: Any, name: str = ""
) -> tuple[Tensor, Tensor]:
    """Mean and inverse standard deviation of each channel."""
    return _statistics.statistics(
        graph, "poplin::normStatistics", acts, eps, prog, unbiasedVarEstimate, by_channel, name
    )


def normWhiten(graph: Graph, acts: Tensor, mean: Tensor, iStdDev: Tensor, prog: Target, name: str = "") -> Tensor:
    return _statistics.whiten(graph, "poplin::normWhiten", acts, mean, iStdDev, prog, by_channel, name)


def normalise(graph: Graph, actsWhitened: Tensor, gamma: Tensor, beta: Tensor, prog: Target, name: str = "") -> Tensor:
    """gamma times what was whitened, plus beta."""
    return _statistics.scale_and_shift(graph, "poplin::normalise", actsWhitened, gamma, beta, prog, name)


def normParamGradients(
    graph: Graph, actsWhitened: Tensor, gradsIn: Tensor, prog: Target, *rest: Any, name: str = ""
) -> tuple[Tensor, Tensor]:
    """Gradients of gamma and beta."""
    return _statistics.parameter_gradients(graph, "poplin::normParamGradients", actsWhitened, gradsIn, prog, name)


def normGradients(graph: Graph, gradsIn: Tensor, gamma: Tensor, prog: Target, name: str = "") -> Tensor:
    """The gradient of what was whitened: the gradient of the output times gamma."""

    def traced(grad: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return grad * scale.reshape([1, -1, *[1] * (grad.dim() - 2)]).to(grad.dtype)

    types = [gradsIn.elementType()]
    return call_library(graph, prog, "poplin::normGradients", traced, [gradsIn, gamma], types=types, name=name)[0]


def normStatisticsGradients(
    graph: Graph, actsWhitened: Tensor, gradsIn: Tensor, invStdDev: Tensor, prog: Target, *rest: Any, name: str = ""
) -> Tensor:
    """The gradient of the activations, from that of what was whitened."""
    function = "poplin::normStatisticsGradients"
    return _statistics.input_gradient(graph, function, actsWhitened, gradsIn, invStdDev, None, prog, by_channel, name)
