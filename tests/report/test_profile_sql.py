"""The SQL of docs/profile_sql.md, run on profiles: each query gives the figures of the plan."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from advice_factory import make_advice, make_oversized_profile
from pipelined_plan import make_pipelined_plan

from openipu.report import Profile, build_profile, write_profile

PAGE = Path(__file__).parents[2] / "docs" / "profile_sql.md"
QUERIES = re.findall(
    r"^\*\*(\d+)\. (.*?)\*\*\n\n```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)


@pytest.fixture(scope="module")
def profile() -> Profile:
    return make_oversized_profile(make_advice())


@pytest.fixture(scope="module")
def path(profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_profile(profile, tmp_path_factory.mktemp("sql"))


def ask(path: Path, number: int) -> list[tuple[Any, ...]]:
    query = {int(place): text for place, _, text in QUERIES}[number]
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


def test_there_are_ten_queries_and_every_table_is_named(path: Path) -> None:
    assert [int(number) for number, _, _ in QUERIES] == list(range(1, 11))
    with closing(sqlite3.connect(path)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in sorted(tables) if f"`{name}`" not in text] == []


def test_1_how_full_the_fullest_tile_is(path: Path, profile: Profile) -> None:
    fit = profile.fit
    whole = (0, fit.peak_ipu, fit.peak_tile, fit.peak_step, fit.peak_bytes, fit.limit_bytes)
    assert ask(path, 1) == [(*whole, pytest.approx(100 * fit.peak_bytes / fit.limit_bytes))]


def test_2_the_ops_that_take_most_cycles_with_their_lines(path: Path, profile: Profile) -> None:
    worst = sorted(profile.ops, key=lambda op: (-op.cycles, op.index))[:10]
    assert ask(path, 2) == [(op.op, op.module, op.cycles, f"{op.line.file}:{op.line.line}") for op in worst if op.line]


def test_3_the_kinds_of_step_in_each_phase(path: Path, profile: Profile) -> None:
    cycles: dict[tuple[str, str], float] = defaultdict(float)
    for phase, kind, own in zip(profile.steps.phase, profile.steps.kind, profile.steps.cycles.tolist(), strict=True):
        cycles[phase, kind] += own
    found = ask(path, 3)
    assert {(phase, kind): pytest.approx(own) for phase, kind, _, own, _ in found} == cycles
    for phase in {row[0] for row in found}:
        assert sum(row[4] for row in found if row[0] == phase) == pytest.approx(100)


def test_4_the_lines_that_cost_most(path: Path, profile: Profile) -> None:
    cycles: dict[int, float] = defaultdict(float)
    for op in profile.ops:
        if op.line is not None:
            cycles[op.line.line] += op.cycles
    best = sorted(cycles.values(), reverse=True)[:10]
    assert [row[3] for row in ask(path, 4)] == pytest.approx(best)


@pytest.mark.parametrize("pipelined", [False, True])
def test_5_how_busy_each_ipu_is(profile: Profile, path: Path, tmp_path: Path, pipelined: bool) -> None:
    if pipelined:
        profile = build_profile(make_pipelined_plan())
        path = write_profile(profile, tmp_path)
    busy: dict[int, float] = defaultdict(float)
    for step, phase in enumerate(profile.steps.phase):
        times = 1 if profile.steps.per_call[step] else profile.executions(phase)
        busy[int(profile.steps.ipu[step])] += float(profile.steps.cycles[step]) * times
    assert ask(path, 5) == [(ipu, pytest.approx(busy[ipu])) for ipu in sorted(busy)]


def test_6_what_is_live_at_the_worst_step_by_kind(path: Path, profile: Profile) -> None:
    step, found = profile.fit.peak_step, ask(path, 6)
    live = [v for v in profile.variables if v.always_live or v.first_step <= step <= v.last_step]
    assert sum(row[2] for row in found) == len(live)
    assert sum(row[3] for row in found) == sum(variable.total_bytes for variable in live)
    changing = sum(row[3] for row in found if not row[1])
    assert changing == int(profile.memory[0].live_by_step[step])


def test_7_the_activations_that_live_longest(path: Path, profile: Profile) -> None:
    own = [v for v in profile.variables if v.kind == "activation" and not v.always_live]
    own.sort(key=lambda v: (v.first_step - v.last_step, -v.total_bytes, v.index))
    assert [row[0] for row in ask(path, 7)] == [variable.name for variable in own[:10]]


def test_8_how_uneven_the_tiles_of_an_ipu_are(path: Path, profile: Profile) -> None:
    peak = profile.memory[0].peak
    assert ask(path, 8) == [(0, int(peak.max()), pytest.approx(peak.mean()), pytest.approx(peak.max() / peak.mean()))]


def test_9_steps_that_leave_tiles_idle(path: Path, profile: Profile, tmp_path: Path) -> None:
    assert ask(path, 9) == []  # all use nearly every tile
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(tmp_path / "few.pop")) as copy:
        source.backup(copy)
        copy.execute("UPDATE steps SET tiles = 735 WHERE id = (SELECT min(id) FROM steps WHERE type = 'compute')")
        copy.commit()
    first = next(place for place, kind in enumerate(profile.steps.kind) if kind == "compute")
    op = profile.ops[int(profile.steps.op[first])]
    row = (profile.steps.name[first], op.op, op.module, 735, float(profile.steps.cycles[first]))
    assert ask(tmp_path / "few.pop", 9) == [row]


def test_10_levers_in_the_words_of_a_front_end(path: Path, profile: Profile) -> None:
    assert profile.advice is not None
    assert ask(path, 10) == [
        (
            lever.title,
            int(lever.fits),
            lever.saved_tile_bytes,
            lever.paid_ipu_cycles_per_sample,
            lever.slowdown,
            lever.words["poptorch"],
        )
        for lever in profile.advice.levers
    ]
