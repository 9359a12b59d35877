"""Tile mappings spread bytes in whole grains."""

import numpy as np
import pytest

from openipu.plan import TileMapping


def test_bytes_are_spread_evenly_in_grains() -> None:
    mapping = TileMapping(first_tile=0, tiles=3, total_bytes=80, grain_bytes=8)
    # 10 grains over 3 tiles: edges at 0, 10//3 = 3, 20//3 = 6, 10 -> 3, 3, 4 grains
    assert mapping.bytes_by_tile(5).tolist() == [24, 24, 32, 0, 0]
    assert mapping.peak_tile_bytes == 4 * 8


def test_a_mapping_wraps_around_the_last_tile() -> None:
    mapping = TileMapping(first_tile=3, tiles=2, total_bytes=16, grain_bytes=8)
    assert mapping.bytes_by_tile(4).tolist() == [8, 0, 0, 8]


@pytest.mark.parametrize(("tiles", "total"), [(1472, 1), (1472, 12345), (7, 8 * 7 * 100), (1, 999)])
def test_nothing_is_lost_and_at_most_one_grain_is_added(tiles: int, total: int) -> None:
    held = TileMapping(11, tiles, total).bytes_by_tile(1472)
    assert total <= held.sum() < total + 8
    assert held.max() == TileMapping(11, tiles, total).peak_tile_bytes
    used = held[held > 0]
    assert np.ptp(used) <= 8


def test_an_empty_tensor_takes_nothing() -> None:
    assert TileMapping(0, 1, 0).bytes_by_tile(4).sum() == 0
