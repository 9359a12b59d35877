"""PopLibs' utilities: where tensors lie, and shapes that fit each other. Unofficial.

In: graphs and tensors of `poplar`. Out: mappings and views. Only `copyToIpu` and `duplicate` add to a program.
"""

from poplar._linear import (
    calcLinearTileMapping,
    getTileImbalance,
    mapTensorLinearly,
    mapTensorLinearlyWithOffset,
)
from poputil import graphfn
from poputil._broadcast import (
    broadcastToMatch,
    canBroadcastToMatch,
    createBroadcastOperand,
    detectInnermostGrouping,
    duplicate,
    expandToMatchRanks,
)
from poputil._regions import (
    balancedPartition,
    cloneN,
    cloneToIpu,
    copyToIpu,
    createIpuCopy,
    dimIsSplitOverIPUs,
    dimIsSplitOverTiles,
    flattenIndex,
    flattenIntervals,
    intervalSequenceNumElements,
    mergeAdjacentRegions,
    splitRegions,
    splitRegionsBetweenWorkers,
    templateVertex,
    unflattenIndex,
)

__all__ = [
    "balancedPartition",
    "broadcastToMatch",
    "calcLinearTileMapping",
    "canBroadcastToMatch",
    "cloneN",
    "cloneToIpu",
    "copyToIpu",
    "createBroadcastOperand",
    "createIpuCopy",
    "detectInnermostGrouping",
    "dimIsSplitOverIPUs",
    "dimIsSplitOverTiles",
    "duplicate",
    "expandToMatchRanks",
    "flattenIndex",
    "flattenIntervals",
    "getTileImbalance",
    "graphfn",
    "intervalSequenceNumElements",
    "mapTensorLinearly",
    "mapTensorLinearlyWithOffset",
    "mergeAdjacentRegions",
    "splitRegions",
    "splitRegionsBetweenWorkers",
    "templateVertex",
    "unflattenIndex",
]
