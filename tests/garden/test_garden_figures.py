"""The garden's figures are those of the file of published ones, and every family has a configuration to plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from openipu.machine import resolve_system
from openipu.validation.figures import read_rows
from openipu.validation.workloads import recognise_model
from openipu_garden import list_families
from openipu_garden.figures import choose_rows, find_origin, list_rows, read_figures

PUBLISHED = Path(__file__).parents[1] / "data" / "published_figures.csv"


def test_published_rows_are_as_they_were_published():
    published = {row.id: row for row in read_rows(PUBLISHED)}
    for row in read_figures().values():
        if row.value is None:
            assert row.id.startswith("GARDEN-")
            assert not row.source
        else:
            assert row == published[row.id]


def test_every_row_belongs_to_a_family():
    used = {name for family in list_families() for name in family.figures}
    assert used == set(read_figures())


@pytest.mark.parametrize("family", list_families(), ids=lambda family: family.name)
def test_all_rows_of_a_family_mean_one_model(family):
    rows = list_rows(family)
    assert rows
    assert len({recognise_model(row).kind for row in rows}) == 1


def test_a_system_without_figures_gets_the_main_configuration_and_no_published_value():
    (family,) = [entry for entry in list_families() if entry.name == "resnet-50"]
    (row,) = choose_rows(family, "bow-pod64")
    origin = find_origin(row)
    assert (row.system, row.ipus, row.value) == ("bow-pod64", 64, None)
    assert (origin.id, origin.value) == ("VEN-049", 37061)
    assert "replicas" in origin.params
    assert "replicas" not in row.params
    assert row.params["micro_batch"] == origin.params["micro_batch"]


def test_a_system_with_figures_gets_those_alone():
    (family,) = [entry for entry in list_families() if entry.name == "resnet-50"]
    rows = choose_rows(family, "c600")
    assert {resolve_system("c600").name} == {"c600"}
    assert [row.id for row in rows] == ["PRTB-008", "POPRT-007"]
    assert all(row.value is not None for row in rows)
