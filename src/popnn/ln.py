"""Layer norm: group norm with one group."""

from __future__ import annotations

from typing import Any

from poplar import Graph, Tensor
from poplar._library import Target
from popnn import gn

layerNormWhiten = gn.groupNormWhiten
layerNormalise = gn.groupNormalise
layerNormParamGradients = gn.groupNormParamGradients
layerNormGradients = gn.groupNormGradients
layerNormParamUpdate = gn.groupNormParamUpdate


def layerNormStatistics(
    graph: Graph, acts: Tensor, eps: float, prog: Target, unbiasedVarEstimate: bool = False, *rest: Any, name: str = ""
) -> tuple[Tensor, Tensor]:
    return gn.groupNormStatistics(graph, acts, eps, prog, 1, unbiasedVarEstimate, name=name)
