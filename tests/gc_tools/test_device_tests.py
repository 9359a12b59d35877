"""The tests of devices find what they look for, and their modelled figures are arithmetic on the machine's."""

import dataclasses

import numpy as np
import pytest

from openipu.gc_tools import hosttraffictest
from openipu.gc_tools.exchangetest import check_exchange, list_patterns, model_phase
from openipu.gc_tools.hostsynclatencytest import measure_round_trips, model_external_sync_cycles
from openipu.gc_tools.iputraffictest import exchange_both_ways
from openipu.gc_tools.memorytest import PATTERNS, check_memories
from openipu.gc_tools.powertest import read_energy_joules, read_temperature
from openipu.gc_tools.tile_memory import StuckBit
from openipu.machine import resolve_system
from openipu.pod import find_pod

BOW = resolve_system("bow-2000").target
SMALL = dataclasses.replace(BOW, tiles=24)


def test_sound_memories_pass_and_every_byte_is_walked():
    result = check_memories(BOW, 3)
    assert result.failed_words == {}
    assert result.tested_bytes == 3 * 624 * 1024
    # 624 KiB written at 8 B and read at 16 B a cycle, once for each of 5 patterns
    assert result.modelled_cycles == 5 * (638976 / 8 + 638976 / 16)


@pytest.mark.parametrize("bit", [0, 1, 31])
def test_a_stuck_bit_is_found_on_its_tile_whichever_it_is(bit):
    result = check_memories(BOW, 40, [StuckBit(35, 638976 - 4, bit)])
    assert list(result.failed_words) == [35]
    assert result.failed_words[35] >= 2  # zeros, one of the alternating patterns, and perhaps its address


def test_the_address_pattern_gives_all_words_of_a_tile_different_values():
    from openipu.gc_tools.tile_memory import TileMemories

    memories = TileMemories(2, 64)
    values = PATTERNS["addresses"](memories)
    assert len(np.unique(values)) == 2 * 16


def test_the_memory_test_reports_failing_tiles_by_its_exit_code(call, call_json):
    assert call("memorytest", "-d", "1", "--tiles", "2")[0] == 0
    code, document = call_json("memorytest", "-d", "1", "--tiles", "2", "--inject-fault", "1:0x10:4")
    assert code == 1
    (device,) = document["devices"]
    assert (device["result"], [row["tile"] for row in device["failed_tiles"]]) == ("failed", [1])
    assert device["duration_seconds"]["kind"] == "measured on this host"
    assert device["ipu_seconds"]["kind"] == "modelled"
    code, _, err = call("memorytest", "--tiles", "2", "--inject-fault", "2:0:0")
    assert (code, "is not tested" in err) == (2, True)


def test_every_pattern_moves_every_message_and_is_paid_as_the_planner_pays_it():
    results = check_exchange(SMALL, 256)
    assert [result.wrong_words for result in results] == [0] * len(results)
    # 256 B received at 4 B a cycle, and the launch of one phase
    assert results[0].modelled_cycles == 256 / 4 + BOW.phase_launch_cycles
    assert results[-1].received_bytes_per_tile == 24 * 4  # all to all: a word from each of 24 tiles
    assert model_phase(BOW, 4096) == 1024 + BOW.phase_launch_cycles


def test_the_patterns_are_different_and_all_but_the_broadcast_reach_from_every_tile():
    patterns = list_patterns(24)
    assert len({tuple(sources) for sources in patterns.values()}) == len(patterns)
    for name, sources in patterns.items():
        assert len(set(sources)) == (1 if name == "broadcast" else 24)


def test_a_bit_that_arrives_wrong_is_found():
    results = check_exchange(SMALL, 256, [StuckBit(7, 8, 5)])
    assert sum(result.wrong_words for result in results) > 0
    assert all(result.wrong_words <= 1 for result in results)


def test_traffic_between_ipus_is_checked_in_both_directions():
    moved, wrong, seconds = exchange_both_ways(8, 3)
    assert (moved, wrong) == (2 * 8 * 1024 * 3, 0)
    assert seconds > 0
    assert exchange_both_ways(8, 3, [StuckBit(2, 4, 30)])[1] > 0


def test_the_link_between_two_ipus_is_modelled_and_errors_are_an_exit_code(call_json):
    code, document = call_json("iputraffictest", "-i", "2")
    row = document["tile_to_tile"]
    assert (code, row["device0"], row["device1"], row["errors"]) == (0, "0", "1", "0")
    assert row["gbps"] == "870.400"  # 2 ways x 54.4 GB/s x 8 bits
    code, document = call_json("iputraffictest", "-i", "2", "--inject-fault", "0:0:31")
    assert (code, document["tile_to_tile"]["errors"] != "0") == (1, True)


def test_host_traffic_is_measured_and_a_wrong_copy_is_noticed(call_json, monkeypatch):
    code, document = call_json("hosttraffictest", "-d", "0", "-i", "1", "--blocks", "1")
    row = document["devices"][0]["repeat_0"]["host_to_buffer_to_tile"]
    assert (code, row["data"]) == (0, "correct")
    assert row["tile_transfer_speed_gbps"] == "25.000"  # 3.125 GB/s x 8 bits, an IPU's share of 100 GbE
    assert row["host_data_transferred_bytes"] == str(1472 * 64)
    copy = np.copyto

    def copy_wrongly(target, source):
        copy(target, source)
        target[0, 0] ^= 1

    monkeypatch.setattr(hosttraffictest.np, "copyto", copy_wrongly)
    assert hosttraffictest.move_blocks(4, 1, 2, both_ways=False).wrong_bytes == 2
    assert call_json("hosttraffictest", "-d", "0", "-i", "1", "--blocks", "1")[0] == 1


def test_flops_keep_the_model_and_the_host_apart(call_json):
    code, document = call_json("flops", "-d", "0", "-p", "FP32")
    assert code == 0
    # 1,472 tiles x 1.85 GHz x 16 units x 2 operations
    assert document["devices"][0]["teraflops"] == {"value": 87.1424, "kind": "modelled peak"}
    assert document["host"]["teraflops"]["kind"] == "measured on this host"


def test_syncs_of_more_ipus_take_more_hops():
    assert model_external_sync_cycles(BOW, 1) == 0
    assert model_external_sync_cycles(BOW, 4) == 111  # 15 ns x 1.85 GHz x (1 + 4 / 2 / 2) hops x 2 ways
    assert len(measure_round_trips(5)) == 5


def test_the_host_sync_test_says_what_it_measured(call_json):
    code, row = call_json("hostsynclatencytest", "-i", "10")
    assert (code, row["time_to_sync_us"]["kind"], row["ipu_sync_us"]["kind"]) == (
        0,
        "measured on this host",
        "modelled",
    )


def test_power_is_that_of_the_host_or_unknown(tmp_path, call_json):
    assert read_energy_joules(tmp_path) is None
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "energy_uj").write_text("2500000\n")
    (tmp_path / "thermal_zone0").mkdir()
    (tmp_path / "thermal_zone0" / "temp").write_text("41000\n")
    assert read_energy_joules(tmp_path) == 2.5
    assert read_temperature(tmp_path) == 41.0
    (device,) = call_json("powertest", "--seconds", "0.01")[1]["devices"]
    assert device["ipu power"] == "N/A"


def test_a_device_that_is_in_use_is_not_tested(call, monkeypatch):
    monkeypatch.setenv("OPENIPU_POD", "bow-2000")
    lease = find_pod().attach(1, 2)
    code, _, err = call("memorytest", "-d", "2", "--tiles", "1")
    assert code == 2
    assert "Device 2 is in use" in err
    assert call("memorytest", "-d", "3", "--tiles", "1")[0] == 0
    lease.release()
