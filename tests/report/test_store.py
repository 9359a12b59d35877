"""profile.pop: what is written is read back, whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_factory import make_bert_plan, make_cnn_plan, make_oversized_plan

from openipu.errors import ProfileError
from openipu.plan.types import Plan, TileMapping
from openipu.report import SCHEMA_VERSION, build_profile, read_profile, write_profile


def find_differences(one: Any, other: Any, where: str = "profile") -> list[str]:
    """Paths of everything that is not equal, through dataclasses, mappings, tuples and arrays."""
    if dataclasses.is_dataclass(one) and type(one) is type(other):
        names = [field.name for field in dataclasses.fields(one)]
        pairs = [(name, getattr(one, name), getattr(other, name)) for name in names]
    elif isinstance(one, np.ndarray):
        same = isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
        return [] if same else [where]
    elif isinstance(one, Mapping) and list(one) == list(other):
        pairs = [(str(key), one[key], other[key]) for key in one]
    elif isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        pairs = [(str(place), left, right) for place, (left, right) in enumerate(zip(one, other, strict=True))]
    else:
        return [] if type(one) is type(other) and one == other else [where]
    return [found for name, left, right in pairs for found in find_differences(left, right, f"{where}.{name}")]


@pytest.mark.parametrize("make_plan", [make_cnn_plan, make_bert_plan, make_oversized_plan])
def test_a_profile_reads_back_as_it_was_written(make_plan: Any, tmp_path: Path) -> None:
    expected = build_profile(make_plan())
    found = read_profile(write_profile(expected, tmp_path))
    assert found.system == expected.system  # by value: the order of the sources is that of the file
    assert find_differences(expected, dataclasses.replace(found, system=expected.system)) == []


def test_the_comparison_of_these_tests_notices_a_single_byte() -> None:
    profile = build_profile(make_cnn_plan())
    changed = profile.memory[0].live_by_step.copy()
    changed[7] += 1
    other = dataclasses.replace(profile, memory=(dataclasses.replace(profile.memory[0], live_by_step=changed),))
    assert find_differences(profile, other) == ["profile.memory.0.live_by_step"]


def test_a_profile_of_bert_base_stays_below_ten_megabytes(tmp_path: Path) -> None:
    plan = make_bert_plan()
    assert len(plan.steps) > 11_000
    assert write_profile(plan, tmp_path).stat().st_size < 10_000_000


def test_an_empty_program_has_a_profile(tmp_path: Path) -> None:
    full = make_cnn_plan()
    nothing = np.zeros(0, dtype=np.int64)
    memory = dataclasses.replace(full.memory[0], live_by_step=nothing, fullest_by_step=nothing)
    plan = dataclasses.replace(full, ops=(), steps=(), variables=(), memory=(memory,))
    profile = read_profile(write_profile(plan, tmp_path))
    assert len(profile.steps) == 0
    assert profile.ops == ()


def test_directories_are_made_and_an_older_profile_is_replaced(tmp_path: Path) -> None:
    directory = tmp_path / "profiles" / "training"
    write_profile(make_cnn_plan("first"), directory)
    path = write_profile(make_cnn_plan("second"), directory)
    assert path == directory / "profile.pop"
    assert read_profile(directory).name == "second"
    assert os.listdir(directory) == ["profile.pop"]


def test_a_write_that_fails_leaves_the_older_profile_and_no_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_profile(make_cnn_plan("old"), tmp_path)

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("openipu.report.write._write_memory", fail)
    with pytest.raises(ProfileError, match=r"No space left on device.*free space"):
        write_profile(make_cnn_plan("new"), tmp_path)
    assert read_profile(tmp_path).name == "old"
    assert os.listdir(tmp_path) == ["profile.pop"]


def test_a_directory_that_is_a_file_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("not a directory")
    with pytest.raises(ProfileError, match="taken"):
        write_profile(make_cnn_plan(), tmp_path / "taken")


def test_a_missing_profile_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"no profile at .*profile\.pop.*Give the path"):
        read_profile(tmp_path)


def test_a_file_that_is_no_database_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "profile.pop"
    path.write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(ProfileError, match=r"damaged.*Plan the program again"):
        read_profile(path)


def test_a_truncated_profile_is_called_damaged(tmp_path: Path) -> None:
    path = write_profile(make_cnn_plan(), tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ProfileError, match="damaged"):
        read_profile(path)


def test_a_damaged_series_is_called_damaged(tmp_path: Path) -> None:
    path = write_profile(make_cnn_plan(), tmp_path)
    change(path, "UPDATE live_by_step SET all_tiles_bytes = x'0011'")
    with pytest.raises(ProfileError, match="damaged"):
        read_profile(path)


def test_a_missing_table_is_called_damaged(tmp_path: Path) -> None:
    path = write_profile(make_cnn_plan(), tmp_path)
    change(path, "DROP TABLE timing")
    with pytest.raises(ProfileError, match="timing"):
        read_profile(path)


def test_the_database_of_another_tool_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile.pop"
    change(path, "CREATE TABLE steps (id INTEGER)")
    with pytest.raises(ProfileError, match="not one that openipu wrote"):
        read_profile(path)


@pytest.mark.parametrize(("version", "advice"), [(SCHEMA_VERSION + 1, "upgrade openipu"), (0, "Plan the program")])
def test_another_version_of_the_format_is_refused_with_advice(version: int, advice: str, tmp_path: Path) -> None:
    path = write_profile(make_cnn_plan(), tmp_path)
    change(path, f"PRAGMA user_version = {version}")
    with pytest.raises(ProfileError, match=rf"version {version}.*reads version {SCHEMA_VERSION}.*{advice}"):
        read_profile(path)


def test_the_tables_answer_questions_in_sql(tmp_path: Path) -> None:
    plan = make_cnn_plan()
    path = write_profile(plan, tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        tile, total = connection.execute(
            "SELECT tile, total_bytes FROM memory_by_tile ORDER BY total_bytes DESC, tile LIMIT 1"
        ).fetchone()
        by_op = connection.execute(
            "SELECT ops.name, sum(steps.cycles) FROM steps JOIN ops ON steps.op = ops.id "
            "GROUP BY ops.id ORDER BY ops.id"
        ).fetchall()
        file, line = connection.execute(
            "SELECT file, line FROM ops JOIN source_lines ON ops.source_line = source_lines.id WHERE ops.id = 0"
        ).fetchone()
        version = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()[0]
    assert (tile, total) == (plan.fit.peak_tile, plan.fit.peak_bytes)
    assert [name for name, _ in by_op] == [op.name for op in plan.ops]
    assert [cycles for _, cycles in by_op] == pytest.approx([op.cycles for op in plan.ops])
    assert (file, line) == ("/home/ada/project/model.py", 20)
    assert version == SCHEMA_VERSION


def test_plans_of_ops_may_hold_tuples_enums_and_numpy_numbers(tmp_path: Path) -> None:
    plan = make_cnn_plan()
    chosen = {"split": (1, np.int64(2)), "phase": plan.ops[0].phase, "share": np.float32(0.5), "none": None}
    ops = (dataclasses.replace(plan.ops[0], plan=chosen), *plan.ops[1:])
    profile = read_profile(write_profile(dataclasses.replace(plan, ops=ops), tmp_path))
    assert profile.ops[0].plan == {"split": [1, 2], "phase": "forward", "share": 0.5, "none": None}


@pytest.mark.parametrize(("first_tile", "tiles", "total_bytes"), [(0, 1472, 100_000), (1400, 200, 999), (7, 3, 0)])
def test_bytes_on_tiles_are_those_of_the_plan(first_tile: int, tiles: int, total_bytes: int) -> None:
    plan: Plan = make_cnn_plan()
    mapping = TileMapping(first_tile, tiles, total_bytes)
    variable = dataclasses.replace(plan.variables[0], mapping=mapping)
    record = build_profile(dataclasses.replace(plan, variables=(variable,))).variables[0]
    expected = mapping.bytes_by_tile(1472)
    assert record.bytes_by_tile(1472).tolist() == expected.tolist()
    assert [record.bytes_on_tile(tile, 1472) for tile in range(1472)] == expected.tolist()


def test_a_profile_opens_without_pytorch(tmp_path: Path) -> None:
    path = write_profile(make_cnn_plan(), tmp_path)
    code = (
        "import json, sys; from pathlib import Path; from openipu.report import *;"
        f"profile = read_profile(Path({str(path)!r}));"
        "render_text(summarise(profile)); to_json(profile);"
        f"write_html(profile, Path({str(tmp_path / 'page.html')!r}));"
        "print(json.dumps([profile.name, 'torch' in sys.modules]))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == ["resnet", False]


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
