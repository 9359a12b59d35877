"""PopLibs' utilities: where tensors lie, and shapes that fit each other. Unofficial.

In: graphs and tensors of `poplar`. Out: mappings and views. Only `copyToIpu` adds to a program.
"""

from poplar._linear import (
    calcLinearTileMapping,
    getTileImbalance,
    mapTensorLinearly,
    mapTensorLinearlyWithOffset,
)
from poputil._broadcast import broadcastToMatch, createBroadcastOperand, detectInnermostGrouping, duplicate
from poputil._regions import copyToIpu, createIpuCopy, splitRegions, splitRegionsBetweenWorkers, templateVertex

__all__ = [
    "broadcastToMatch",
    "calcLinearTileMapping",
    "copyToIpu",
    "createBroadcastOperand",
    "createIpuCopy",
    "detectInnermostGrouping",
    "duplicate",
    "getTileImbalance",
    "mapTensorLinearly",
    "mapTensorLinearlyWithOffset",
    "splitRegions",
    "splitRegionsBetweenWorkers",
    "templateVertex",
]
