"""Instance norm: group norm with as many groups as channels."""

from __future__ import annotations

from typing import Any

from poplar import Graph, Tensor
from poplar._library import Target
from popnn import gn

instanceNormWhiten = gn.groupNormWhiten
instanceNormalise = gn.groupNormalise
instanceNormParamGradients = gn.groupNormParamGradients
instanceNormGradients = gn.groupNormGradients
instanceNormParamUpdate = gn.groupNormParamUpdate


def instanceNormStatistics(
    graph: Graph, acts: Tensor, eps: float, prog: Target, unbiasedVarEstimate: bool = False, *rest: Any, name: str = ""
) -> tuple[Tensor, Tensor]:
    return gn.groupNormStatistics(graph, acts, eps, prog, acts.dim(1), unbiasedVarEstimate, name=name)
