"""Profiles from somebody else: whatever they hold, they are shown or refused, and nothing hangs or fills memory."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from plan_factory import make_cnn_plan

from openipu.errors import ProfileError
from openipu.report import read_profile, write_profile

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, 'x' AS text FROM n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_profile(make_cnn_plan(), tmp_path)


def change(path: Path, *statements: str, values: tuple[object, ...] = ()) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement, values)


def test_a_view_in_place_of_a_table_is_refused_before_it_is_read(path: Path) -> None:
    change(path, "DROP TABLE warnings", f"CREATE VIEW warnings AS {ENDLESS}")
    with pytest.raises(
        ProfileError, match=r"warnings is missing, or is not as openipu makes it\. Plan the program again"
    ):
        read_profile(path)


def test_a_trigger_is_refused(path: Path) -> None:
    change(path, "CREATE TRIGGER now AFTER INSERT ON meta BEGIN DELETE FROM meta; END")
    with pytest.raises(ProfileError, match="now is missing, or is not as"):
        read_profile(path)


def test_a_series_that_unpacks_to_more_than_there_are_steps_is_refused(path: Path) -> None:
    bomb = zlib.compress(bytes(200 << 20))
    change(path, "UPDATE live_by_step SET all_tiles_bytes = ?", values=(bomb,))
    with pytest.raises(ProfileError, match="unpacks to more than"):
        read_profile(path)


def test_a_fifo_in_place_of_a_profile_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "profile.pop")
    with pytest.raises(ProfileError, match="is a FIFO, and no file"):
        read_profile(tmp_path)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE steps SET op = 99999 WHERE id = 0", "steps speak of ops that are not there"),
        ("UPDATE steps SET ipu = 7 WHERE id = 0", "steps speak of IPUs that are not there"),
        ("UPDATE steps SET cycles = 9e999 WHERE id = 0", "Expected `float`"),
        ("UPDATE steps SET cycles = 1e25 WHERE id = 0", "Expected `float`"),  # no whole number of 64 bits
        ("UPDATE steps SET tiles = 'many' WHERE id = 0", "Expected `int`"),
        ("UPDATE ops SET reads_json = '[123456]' WHERE id = 0", "variables that are not there"),
        ("UPDATE ops SET plan_json = '{\"a\": NaN}' WHERE id = 0", "is not JSON"),
        ("UPDATE ops SET first_step = 1000000 WHERE id = 0", "steps that are not there"),
        ("UPDATE ops SET source_line = 1000000 WHERE id = 0", "damaged"),
        ("UPDATE variables SET grain_bytes = 0 WHERE id = 0", "no place for them"),
        ("UPDATE variables SET first_tile = 1472 WHERE id = 0", "tiles that are not there"),
        ("UPDATE variables SET shape_json = '[-1]' WHERE id = 0", "Expected `int` >= 0"),
        ("UPDATE figures SET value = 1000000000000 WHERE name = 'tiles'", "tiles = 1000000000000 is wrong"),
        ("UPDATE figures SET value = 'x' WHERE name = 'clock_hz'", "clock_hz = 'x' is wrong"),
        ("UPDATE figures SET name = 'evil' WHERE name = 'clock_hz'", "unknown figure evil"),
        ("DELETE FROM figures", "lacks the figures name, architecture, tiles"),
        ("DELETE FROM memory_by_tile WHERE tile = 3", "memory of 1471 tiles instead of 1472"),
        ("DELETE FROM live_by_step", "no memory of any IPU"),
        ("UPDATE fit SET peak_tile = 5000", "fullest tile is not there"),
        ("UPDATE timing SET clock_hz = 0", "clock stands still"),
        ("UPDATE options SET value_json = '\"x\"' WHERE name = 'device_iterations'", "Expected `int`"),
        ("UPDATE meta SET value = NULL WHERE key = 'name'", "Expected `str`"),
    ],
)
def test_what_no_plan_could_say_is_refused_with_its_place(statement: str, problem: str, path: Path) -> None:
    change(path, statement)
    with pytest.raises(ProfileError, match=problem) as caught:
        read_profile(path)
    assert str(path) in str(caught.value)
    assert "Plan the program again" in str(caught.value)


def test_a_plan_with_numbers_that_are_not_finite_can_be_read_back(tmp_path: Path) -> None:
    plan = make_cnn_plan()
    ops = (dataclasses.replace(plan.ops[0], plan={"ratio": float("nan"), "most": float("inf")}), *plan.ops[1:])
    profile = read_profile(write_profile(dataclasses.replace(plan, ops=ops), tmp_path))
    assert profile.ops[0].plan == {"ratio": "NaN", "most": "Infinity"}
