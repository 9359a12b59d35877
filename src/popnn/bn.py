"""Batch norm: statistics of each channel over the batch and the field."""

from __future__ import annotations

from typing import Any

from poplar import Graph, Tensor
from poplar._library import Target
from poplin._statistics import by_channel
from popnn._norms import Norm

_norm = Norm("batchNorm", lambda acts, statistic: by_channel)
batchNormWhiten = _norm.whiten
batchNormalise = _norm.normalise
batchNormParamGradients = _norm.paramGradients
batchNormGradients = _norm.gradients
batchNormParamUpdate = _norm.paramUpdate


def batchNormStatistics(
    graph: Graph, acts: Tensor, eps: float, prog: Target, unbiasedVarEstimate: bool = False, *rest: Any, name: str = ""
) -> tuple[Tensor, Tensor]:
    return _norm.statistics(graph, acts, eps, prog, unbiasedVarEstimate, by_channel, name)
