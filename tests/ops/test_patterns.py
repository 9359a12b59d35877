"""Exchange patterns: sync, way and words, and links between IPUs."""

from __future__ import annotations

import pytest

from openipu.machine import list_targets, resolve_system
from openipu.ops import CostContext, StepKind
from openipu.ops.patterns import (
    Way,
    broadcast_to_tiles,
    copy_to_tile,
    count_hops,
    cross_links,
    exchange_all_to_all,
    gather_on_tile,
    measure_bisection,
    measure_way,
    scatter_from_tile,
)

SYNC, NEAREST = 120, 59
FARTHEST = NEAREST + 2 * 18 + 4 * 15  # 19 islands in each of 16 columns


@pytest.fixture
def mk1() -> CostContext:
    target = list_targets()["gc2"]
    return CostContext(target, target.tiles)


def test_ways_grow_by_islands_and_columns(mk1: CostContext) -> None:
    assert measure_way(Way.NEAREST, mk1) == NEAREST
    assert measure_way(Way.COLUMN, mk1) == NEAREST + 2 * 18
    assert measure_way(Way.FARTHEST, mk1) == FARTHEST
    assert NEAREST < measure_way(Way.ANY, mk1) < FARTHEST


def test_a_copy_moves_four_bytes_a_cycle(mk1: CostContext) -> None:
    assert copy_to_tile(4000, mk1, way=Way.NEAREST).cycles == SYNC + NEAREST + 1000


def test_a_broadcast_reaches_both_tiles_of_a_pair_at_once(mk1: CostContext) -> None:
    assert broadcast_to_tiles(4000, 1216, mk1).cycles == SYNC + FARTHEST + 500


def test_gather_and_scatter_take_one_piece_after_the_other(mk1: CostContext) -> None:
    assert gather_on_tile(4, 300, mk1).cycles == SYNC + FARTHEST + 300
    assert scatter_from_tile(8, 300, mk1).cycles == SYNC + FARTHEST + 600


def test_all_to_all_sends_to_every_other_tile(mk1: CostContext) -> None:
    cost = exchange_all_to_all(4, 76, mk1)
    assert cost.cycles == SYNC + FARTHEST + 75
    assert [step.kind for step in cost.steps] == [StepKind.SYNC, StepKind.EXCHANGE, StepKind.EXCHANGE]


def test_nothing_to_send_still_pays_sync_and_way(mk1: CostContext) -> None:
    assert copy_to_tile(0, mk1, way=Way.NEAREST).cycles == SYNC + NEAREST


@pytest.mark.parametrize(("name", "ipus", "hops"), [("c2", 1, 0), ("c2", 2, 1), ("c2-8", 16, 8), ("pod16", 16, 4)])
def test_hops_are_boards_in_a_chain_and_one_more_on_the_last(name: str, ipus: int, hops: int) -> None:
    assert count_hops(ipus, resolve_system(name)) == hops


def test_links_add_latency_hops_and_what_waits_before() -> None:
    system = resolve_system("c2-8")
    seconds = system.target.seconds(cross_links(2, system, waiting_bytes=27.5e3, off_board=True).cycles)
    assert seconds == pytest.approx(0.285e-6 + 2 * 0.165e-6 + 1e-6)  # 27,500 B at 27.5 GB/s


def test_the_bisection_of_a_chain_of_cards_is_two_links_both_ways() -> None:
    system = resolve_system("c2-8")
    assert measure_bisection(2, system) == 2 * 55e9
    assert measure_bisection(16, system) == 2 * 2 * 27.5e9
