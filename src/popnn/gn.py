"""Group norm: statistics of groups of channels of each sample. Layer and instance norm are group norms."""

from __future__ import annotations

from typing import Any

from poplar import Graph, Tensor
from poplar._library import Target
from poplin._statistics import by_groups
from popnn._norms import Norm

_norm = Norm("groupNorm", lambda acts, statistic: by_groups(statistic.numElements() // acts.dim(0)))
groupNormWhiten = _norm.whiten
groupNormalise = _norm.normalise
groupNormParamGradients = _norm.paramGradients
groupNormGradients = _norm.gradients
groupNormParamUpdate = _norm.paramUpdate


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
    return _norm.statistics(graph, acts, eps, prog, unbiasedVarEstimate, by_groups(numGroups), name)
