"""Linear mapping: whole vectors, at least 128 bytes a tile."""

from __future__ import annotations

import pytest

from openipu.ops import CostContext
from openipu.ops.spread import spread_linearly


@pytest.mark.parametrize(
    ("elements", "element_bytes", "tiles", "busiest"),
    [
        (1, 4, 1, 1),
        (32, 4, 1, 32),  # 128 bytes: one tile
        (64, 4, 2, 32),
        (64, 2, 1, 64),
        (1472 * 32, 4, 1472, 32),
        (1472 * 32 + 2, 4, 1386, 34),  # 23,553 vectors at 17 a tile
        (1 << 20, 4, 1469, 714),  # 524,288 vectors at 357 a tile
    ],
)
def test_a_tensor_is_spread_in_whole_vectors(
    bow: CostContext, elements: int, element_bytes: int, tiles: int, busiest: int
) -> None:
    spread = spread_linearly(elements, element_bytes, bow)
    assert (spread.tiles, spread.elements) == (tiles, busiest)


def test_nothing_lies_nowhere(bow: CostContext) -> None:
    assert spread_linearly(0, 4, bow).tiles == 0


def test_all_elements_have_a_place(bow: CostContext) -> None:
    for elements in range(1, 200_000, 997):
        spread = spread_linearly(elements, 2, bow)
        assert spread.tiles <= bow.tiles
        assert spread.tiles * spread.elements >= elements
