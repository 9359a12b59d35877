"""Users' own machines: a TOML file is a whole machine or a change of a known one, and mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from openipu.errors import TargetError
from openipu.machine import Provenance, list_systems, resolve_system


@pytest.fixture
def write(tmp_path: Path):
    def write_file(text: str, name: str = "mine.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


def test_a_file_may_change_a_known_system(write):
    system = resolve_system(write('[system]\nbase = "pod16"\nipus = 8\n'))
    assert (system.name, system.ipus, system.target.name) == ("mine", 8, "gc200")


def test_a_file_may_change_a_known_chip(write):
    path = write('[system]\nbase = "m2000"\n[target]\nbase = "gc200"\ntile_memory_bytes = 1_000_000\n')
    target = resolve_system(str(path)).target
    assert (target.tile_memory_bytes, target.tiles) == (1_000_000, 1472)


def test_a_file_may_name_what_it_describes(write):
    system = resolve_system(write('[system]\nname = "lab"\nbase = "c2"\n[target]\nname = "gc2-slow"\nbase = "gc2"\n'))
    assert (system.name, system.target.name) == ("lab", "gc2-slow")


def test_what_a_file_takes_over_from_the_catalog_is_not_called_the_users(write):
    sources = resolve_system(write('[system]\nbase = "bow-pod16"\n')).sources
    assert "ipus" not in sources


def test_a_bare_number_is_the_users_own_figure(write):
    path = write('[system]\nbase = "c600"\nhost_bytes_per_second = 1.0e9\n')
    source = resolve_system(path).sources["host_bytes_per_second"]
    assert (source.provenance, source.reference) == (Provenance.USER, str(path))


def test_a_figure_may_carry_its_source(write):
    figure = '{ value = 1.0e9, provenance = "published", source = "our own measurement" }'
    system = resolve_system(write(f'[system]\nbase = "c600"\nhost_bytes_per_second = {figure}\n'))
    assert system.host_bytes_per_second == 1.0e9
    assert system.sources["host_bytes_per_second"].reference == "our own measurement"


def test_what_a_file_leaves_out_keeps_its_source(write):
    system = resolve_system(write('[system]\nbase = "c600"\nipus = 2\n'))
    base = list_systems()["c600"]
    for figure in ("host_bytes_per_second", "ipu_link_bytes_per_second", "streaming_memory_bytes"):
        assert system.sources[figure] == base.sources[figure]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TargetError, match=r"system file .*absent\.toml cannot be read: No such file"):
        resolve_system(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[system\n", "not valid TOML"),
        ("", r"no \[system\] table"),
        ('[system]\nbase = "c2"\n[network]\n', "found .network."),
        ('[system]\nbase = "c3"\n', "unknown base 'c3'"),
        ('[system]\nname = "a"\nbase = "a"\n', "refers to itself"),
        ('[system]\nbase = "c2"\nipuss = 3\n', "unknown ipuss"),
        ("[system]\nipus = 3\n", "missing"),
        ('[system]\nbase = "c2"\ntarget = "gc3"\n', "unknown target 'gc3'"),
        ('[system]\nbase = "c2"\nipus = -1\n', "ipus = -1 is wrong: expected `int` >= 1"),
        ('[system]\nbase = "c2"\nipus = 1.5\n', "ipus = 1.5 is wrong: expected `int`, got `float`"),
        ('[system]\nbase = "c2"\nipus = true\n', "ipus = True is wrong: expected `int`, got `bool`"),
        ('[system]\nbase = "c2"\nipus = 0\n', "ipus = 0 is wrong: expected `int` >= 1"),
        (
            '[system]\nbase = "c2"\nhost_bytes_per_second = "fast"\n',
            "= 'fast' is wrong: expected `float`",
        ),
        (
            '[system]\nbase = "c2"\n[target]\nbase = "gc2"\nclock_hz = 0\n',
            "clock_hz = 0 is wrong: expected `float`",
        ),
        ('[system]\nbase = "c2"\n[target]\ntiles = 4\n', "missing"),
        ('[system]\nbase = "c2"\nipus = { value = 2, provenance = "heard", source = "x" }\n', "heard"),
        ('[system]\nbase = "c2"\nipus = { value = 2 }\n', "provenance"),
        ('[system]\nbase = "c2"\nhost_bytes_per_second = inf\n', "not a finite number"),
        ('[system]\nbase = "c2"\nipus = 1000000000\n', "ipus = 1000000000 is wrong"),
        ('[system]\nbase = ["c2"]\n', "unknown base"),
        ("system = 3\n", r"Expected `object`, got `int`"),
        ("a = " + "[" * 5000, "nested too deeply"),
        ("a = " + "9" * 5000, "not valid TOML"),
        (".".join("a" * 9000) + " = 1", "dots"),
    ],
)
def test_a_mistake_is_named_with_its_file(write, text, message):
    path = write(text)
    with pytest.raises(TargetError, match=message) as caught:
        resolve_system(path)
    assert str(path) in str(caught.value)


def test_a_file_in_another_encoding_is_not_valid(tmp_path):
    path = tmp_path / "latin.toml"
    path.write_bytes('[system]\ndescription = "übermäßig"\n'.encode("latin-1"))
    with pytest.raises(TargetError, match="not UTF-8 text"):
        resolve_system(path)
