"""The built-in catalog: names resolve, figures agree with what is published, and each has a source."""

from __future__ import annotations

import dataclasses

import pytest

from openipu.errors import OpenIpuError, TargetError
from openipu.machine import DEFAULT_SYSTEM, SYSTEM_VARIABLE, Provenance, list_systems, list_targets, resolve_system

KIB = 1024


@pytest.fixture(autouse=True)
def _no_choice_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SYSTEM_VARIABLE, raising=False)


def test_nothing_chosen_means_the_default_system():
    assert resolve_system().name == DEFAULT_SYSTEM


def test_the_environment_chooses_when_nothing_else_does(monkeypatch):
    monkeypatch.setenv(SYSTEM_VARIABLE, "pod16")
    assert resolve_system().name == "pod16"
    assert resolve_system("c600").name == "c600"


def test_a_system_object_is_taken_as_it_is():
    system = list_systems()["m2000"]
    assert resolve_system(system) is system


def test_names_do_not_depend_on_capitals():
    assert resolve_system("Bow-Pod16") is list_systems()["bow-pod16"]


def test_an_unknown_name_lists_the_known_ones_the_nearest_first_and_says_who_gave_it(monkeypatch):
    with pytest.raises(TargetError, match=r"Unknown system 'pood16'\. Did you mean 'pod16'\? Known systems: c2, "):
        resolve_system("pood16")
    with pytest.raises(TargetError, match=r"Unknown system 'mainframe'\. Known systems: c2, "):
        resolve_system("mainframe")
    monkeypatch.setenv(SYSTEM_VARIABLE, "pod17")
    with pytest.raises(TargetError, match=f"given by the environment variable {SYSTEM_VARIABLE}"):
        resolve_system()


def test_target_errors_are_openipu_errors():
    assert issubclass(TargetError, OpenIpuError)


@pytest.mark.parametrize(
    ("chip", "half_tflops", "float_tflops"),
    [
        ("gc2", 124.5, 31.1),  # 1,216 tiles x 1.6 GHz x 64 and x 16 operations a cycle
        ("gc200", 250, 62.5),  # 1,472 tiles x 1.325 GHz x 128 and x 32
        ("bow", 350, 87),  # the same tiles at 1.85 GHz
        ("c600", 280, 70),  # the same tiles at 1.5 GHz
    ],
)
def test_peak_rates_agree_with_the_published_ones(chip, half_tflops, float_tflops):
    target = list_targets()[chip]
    assert target.peak_flops(2) / 1e12 == pytest.approx(half_tflops, rel=0.015)
    assert target.peak_flops(4) / 1e12 == pytest.approx(float_tflops, rel=0.015)


def test_memory_of_one_ipu_is_tiles_times_tile_memory():
    assert list_targets()["gc2"].memory_bytes == 1216 * 256 * KIB
    assert list_targets()["bow"].memory_bytes == 1472 * 624 * KIB


def test_usable_tile_memory_leaves_out_what_the_loader_keeps():
    assert list_targets()["gc2"].usable_tile_bytes == 248 * KIB - 56 * KIB  # the last are gaps, fitted on what fits
    kept = 0xE0 + 6 * 0x100 + 0x450
    assert list_targets()["gc200"].usable_tile_bytes == 624 * KIB - kept - 32 * KIB  # gaps, as above


def test_exchange_bandwidth_agrees_with_the_published_aggregate():
    target = list_targets()["gc200"]
    # 1,472 tiles x 4 B x 1.325 GHz = 7.8 TB/s
    assert target.tiles * target.exchange_bytes_per_cycle * target.clock_hz == pytest.approx(7.8e12, rel=0.01)


def test_cycles_become_seconds_by_the_clock():
    assert list_targets()["bow"].seconds(1.85e9) == 1.0


@pytest.mark.parametrize(
    ("name", "ipus", "boards"),
    [("c2", 2, 1), ("c2-8", 16, 8), ("c600", 1, 1), ("m2000", 4, 1), ("pod16", 16, 4), ("bow-pod64", 64, 16)],
)
def test_systems_have_the_ipus_and_boards_of_their_name(name, ipus, boards):
    system = list_systems()[name]
    assert (system.ipus, system.boards) == (ipus, boards)


def test_bow_systems_differ_from_their_forerunners_by_the_chip_alone():
    bow, forerunner = list_systems()["bow-pod16"], list_systems()["pod16"]
    assert bow.target.name == "bow"
    same = {"target": forerunner.target, "name": forerunner.name, "description": forerunner.description}
    assert dataclasses.replace(bow, **same, sources=forerunner.sources) == forerunner


def test_every_figure_of_a_chip_has_a_source():
    for target in list_targets().values():
        figures = {field.name for field in dataclasses.fields(target)} - {"name", "architecture", "sources"}
        for figure in figures:
            source = target.sources[figure]
            assert source.provenance in (Provenance.PUBLISHED, Provenance.DERIVED, Provenance.GUESSED), figure
            assert source.reference, figure


def test_every_rate_of_a_system_has_a_source():
    for system in list_systems().values():
        for figure in (field.name for field in dataclasses.fields(system)):
            if figure.endswith(("_bytes", "_per_second")):
                assert system.sources[figure].provenance is not Provenance.USER, (system.name, figure)


def test_targets_and_systems_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        list_targets()["bow"].tiles = 1  # type: ignore[misc]
