"""PopLibs' utilities: where tensors lie, and shapes that fit each other. Unofficial.

In: graphs and tensors of `poplar`. Out: mappings and views. Nothing here adds to a program.
"""

from poplar._linear import (
    calcLinearTileMapping,
    getTileImbalance,
    mapTensorLinearly,
    mapTensorLinearlyWithOffset,
)

__all__ = ["calcLinearTileMapping", "getTileImbalance", "mapTensorLinearly", "mapTensorLinearlyWithOffset"]
