"""How a tensor lies on the tiles when nothing else decides: evenly, in order, in whole vectors.

In: a number of elements and their size. Out: how many tiles hold some, and how many the busiest tile holds.
Poplibs `mapTensorLinearly` does this: the grain is one vector, no tile gets less than 128 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from openipu.ops.cost import CostContext, Operand
from openipu.ops.rule import ceil_divide

MINIMUM_TILE_BYTES = 128  # published: default of Poplibs mapTensorLinearly


@dataclass(frozen=True, slots=True)
class Spread:
    """A tensor over tiles."""

    tiles: int
    elements: int  # on the busiest tile
    vectors: int  # the same in whole vectors


def spread_linearly(
    elements: int, element_bytes: int, context: CostContext, *, minimum_bytes: int = MINIMUM_TILE_BYTES
) -> Spread:
    """Lay `elements` out over the tiles of the context."""
    if elements <= 0:
        return Spread(0, 0, 0)
    vector_bytes = context.target.vector_bytes
    grain = max(1, vector_bytes // element_bytes)
    grains = ceil_divide(elements, grain)
    least = max(1, ceil_divide(minimum_bytes, grain * element_bytes))
    tiles = ceil_divide(grains, max(least, ceil_divide(grains, context.tiles)))
    busiest = ceil_divide(grains, tiles)
    return Spread(tiles, min(elements, busiest * grain), busiest)


def spread_finely(elements: int, element_bytes: int, context: CostContext) -> Spread:
    """Over as many tiles as there are vectors: how work is balanced when its result lies elsewhere anyway."""
    return spread_linearly(elements, element_bytes, context, minimum_bytes=0)


def spread_operand(operand: Operand, context: CostContext) -> Spread:
    """Lay one tensor out."""
    return spread_linearly(operand.elements, operand.element_bytes, context)
