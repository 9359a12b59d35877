"""Group norm: statistics of groups of channels of each sample."""

from __future__ import annotations

from typing import Any

import torch

from poplar import Graph, Tensor
from poplar._errors import poplar_error
from poplar._library import Target
from popnn import _norms


def _groups(count: int) -> _norms.Grouping:
    def group(given: torch.Tensor) -> torch.Tensor:
        if given.shape[1] % count:
            raise poplar_error(f"{given.shape[1]} channels cannot be divided into {count} groups.")
        return given.reshape(given.shape[0] * count, -1)

    return group


def groupNormStatistics(
    graph: Graph,
    acts: Tensor,
    eps: float,
    prog: Target,
    numGroups: int,
    unbiasedVarEstimate: bool = False,
    *rest: Any,
    name: str = "",
) -> tuple[Tensor, Tensor]:
    return _norms.statistics(
        graph, "popnn::groupNormStatistics", acts, eps, prog, unbiasedVarEstimate, _groups(numGroups), name
    )


def _count(acts: Tensor, mean: Tensor) -> int:
    return mean.numElements() // acts.dim(0)


def groupNormWhiten(
    graph: Graph, acts: Tensor, mean: Tensor, invStdDev: Tensor, prog: Target, name: str = ""
) -> Tensor:
    group = _groups(_count(acts, mean))
    return _norms.whiten(graph, "popnn::groupNormWhiten", acts, mean, invStdDev, prog, group, name)


def groupNormalise(
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
    white = groupNormWhiten(graph, acts, mean, invStdDev, prog, name)
    return _norms.scale_and_shift(graph, "popnn::groupNormalise", white, gamma, beta, prog, name), white


def groupNormParamGradients(
    graph: Graph, actsWhitened: Tensor, gradsIn: Tensor, prog: Target, *rest: Any, name: str = ""
) -> tuple[Tensor, Tensor]:
    return _norms.parameter_gradients(graph, "popnn::groupNormParamGradients", actsWhitened, gradsIn, prog, name)


def groupNormGradients(
    graph: Graph,
    actsWhitened: Tensor,
    gradsIn: Tensor,
    invStdDev: Tensor,
    gamma: Tensor,
    prog: Target,
    *rest: Any,
    name: str = "",
) -> Tensor:
    group = _groups(_count(actsWhitened, invStdDev))
    return _norms.input_gradient(
        graph, "popnn::groupNormGradients", actsWhitened, gradsIn, invStdDev, gamma, prog, group, name
    )
