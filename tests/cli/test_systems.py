"""`openipu systems`: the catalog, one machine with all sources, and the user's own file."""

from __future__ import annotations

import json

from openipu.machine import SYSTEM_VARIABLE, list_systems


def test_the_table_has_a_row_for_every_system(call):
    code, out, err = call("systems")
    assert (code, err) == (0, "")
    first_words = [line.split()[0] for line in out.splitlines() if line.strip()]
    assert [word for word in first_words if word in list_systems()] == list(list_systems())


def test_the_table_names_the_default_and_the_environment_changes_it(call, monkeypatch):
    assert "Default: bow-2000" in call("systems")[1]
    monkeypatch.setenv(SYSTEM_VARIABLE, "c600")
    assert "Default: c600" in call("systems")[1]


def test_json_of_the_catalog_carries_units_in_its_names(call):
    rows = json.loads(call("systems", "--json")[1])
    bow = next(row for row in rows if row["name"] == "bow-2000")
    assert (bow["ipus"], bow["tiles_per_ipu"], bow["clock_hz"]) == (4, 1472, 1.85e9)
    # 4 IPUs x 1,472 tiles x 1.85 GHz x 128 operations a cycle
    assert bow["peak_half_flops"] == 4 * 1472 * 1.85e9 * 128


def test_one_system_shows_every_figure_with_its_source(call):
    code, out, _ = call("systems", "c600")
    assert code == 0
    for figure in ("host_bytes_per_second", "clock_hz", "phase_launch_cycles"):
        assert figure in out
    assert "PCIe 4 x8 at 80 %" in out
    assert "guessed" in out


def test_structure_is_not_called_a_users_figure(call):
    described = json.loads(call("systems", "pod16", "--json")[1])
    assert described["system"]["ipus"] == {"value": 16, "provenance": None, "source": "structure"}
    assert described["target"]["tiles"]["provenance"] == "published"


def test_a_users_own_file_is_shown_with_its_name_as_the_source(call, tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text('[system]\nbase = "m2000"\nhost_bytes_per_second = 1e9\n')
    described = json.loads(call("systems", str(path), "--json")[1])
    assert described["name"] == "lab"
    assert described["system"]["host_bytes_per_second"] == {"value": 1e9, "provenance": "user", "source": str(path)}


def test_a_wrong_file_is_an_error(call, tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text("[system]\nipus = 3\n")
    code, _, err = call("systems", str(path))
    assert code == 2
    assert "lab.toml" in err
    assert "missing" in err
