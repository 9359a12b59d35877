"""Rings over the links of the described machine."""

from __future__ import annotations

import pytest

from openipu.machine import resolve_system
from openipu.plan.collectives import count_all_reduce_cycles, count_share_cycles, find_copy_rate, make_ring, time_sync

BYTES = 51_000_000  # half gradients of ResNet-50


def test_a_ring_on_one_board_is_as_fast_as_its_links():
    system = resolve_system("bow-2000")
    assert make_ring(4, 1, system).bytes_per_second == system.ipu_link_bytes_per_second


def test_a_ring_over_boards_is_as_fast_as_the_links_between_them():
    system = resolve_system("bow-pod16")
    assert make_ring(16, 1, system).bytes_per_second == system.off_board_link_bytes_per_second
    assert make_ring(4, 4, system).bytes_per_second == system.off_board_link_bytes_per_second


def test_a_ring_over_racks_is_as_fast_as_one_gateway_link():
    system = resolve_system("bow-pod256")
    assert make_ring(128, 1, system).bytes_per_second == system.gateway_link_bytes_per_second / 2
    assert make_ring(64, 1, system).bytes_per_second == system.off_board_link_bytes_per_second


def test_an_all_reduce_passes_all_but_the_own_share_twice_and_pays_for_every_turn():
    system = resolve_system("pod16")
    launch_seconds = system.target.phase_launch_cycles / system.target.clock_hz
    hops = 1 + 16 // 2 // 2
    turn = system.ipu_link_latency_seconds + system.ipu_link_hop_seconds + launch_seconds + 2 * hops * 15e-9
    seconds = 2 * 15 / 16 * BYTES / system.off_board_link_bytes_per_second + 30 * turn
    cycles = count_all_reduce_cycles(BYTES, 16, 1, system)
    assert cycles == pytest.approx(seconds * system.target.clock_hz)
    assert count_share_cycles(BYTES, 16, 1, system) == pytest.approx(cycles / 2)


def test_one_replica_has_nothing_to_reduce():
    assert count_all_reduce_cycles(BYTES, 1, 4, resolve_system("pod16")) == 0


def test_more_replicas_take_longer_even_with_the_same_bytes():
    system = resolve_system("pod256")
    times = [count_all_reduce_cycles(BYTES, count, 1, system) for count in (4, 16, 64, 128, 256)]
    assert times == sorted(times)


def test_a_sync_over_many_ipus_goes_to_its_root_and_back():
    assert time_sync(1) == 0
    assert time_sync(64) == pytest.approx(2 * 17 * 15e-9)


def test_a_copy_to_another_board_is_slower_than_one_on_the_board():
    system = resolve_system("bow-pod16")
    assert find_copy_rate(0, 3, system) == system.ipu_link_bytes_per_second
    assert find_copy_rate(3, 4, system) == system.off_board_link_bytes_per_second
