"""The fuzzer: a part of it on every run, and proof that it sees what it looks for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from fuzz.cases import Case, make_case  # noqa: E402
from fuzz.kinds import KINDS  # noqa: E402

from fuzz import pool  # noqa: E402

LIGHT = [kind for kind, row in KINDS.items() if not row.torch]
HEAVY = [kind for kind, row in KINDS.items() if row.torch]


def run_fuzz(
    *words: str, directory: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fuzz", "--workers", "1", "--keep", str(directory / "kept"), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
        timeout=1800,
    )


@pytest.mark.parametrize(("kinds", "mutations"), [(LIGHT, 1500), (HEAVY, 600)], ids=["light", "heavy"])
def test_damaged_files_are_read_or_refused_and_nothing_else(kinds: list[str], mutations: int, tmp_path: Path) -> None:
    ended = run_fuzz("--mutations", str(mutations), "--seed", "1", "--kinds", ",".join(kinds), directory=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not (tmp_path / "kept").exists()
    rows = {line.split()[0]: line.split() for line in ended.stdout.splitlines()}
    assert rows["kind"][1:] == ["ok", "refused"]
    for kind in kinds:
        ok, refused = (int(word.replace(",", "")) for word in rows[kind][1:])
        assert ok, f"no damaged {kind} is read to the end: the damage is too coarse"
        assert refused, f"no damaged {kind} is refused: the damage is too small"


@pytest.mark.parametrize("kind", LIGHT)
def test_a_case_is_the_same_file_every_time(kind: str, tmp_path: Path) -> None:
    seeds = tmp_path / "seeds" / kind
    seeds.mkdir(parents=True)
    KINDS[kind].seeds(seeds)
    made = []
    for turn in range(2):
        files = []
        for number in range(30):
            place = tmp_path / f"{turn}-{number}"
            place.mkdir()
            path = make_case(Case(kind, 3, number), tmp_path / "seeds", place, "")
            files.append(path.read_bytes() if path.is_file() and path.stat().st_size < 1 << 24 else None)
        made.append(files)
    assert made[0] == made[1]


BAD_READERS = {
    "traceback": "json.loads(path.read_bytes())",
    "wrote": "Path('beside').write_text('x')",
    "memory": "bytearray(800 << 20)",
    "hang": "all(True for _ in iter(int, 1))",
    "crash": "os.abort()",
}


@pytest.mark.parametrize("verdict", BAD_READERS)
def test_a_reader_that_misbehaves_is_found_and_its_file_is_kept(verdict: str, tmp_path: Path) -> None:
    (tmp_path / "bad_kind.py").write_text(f"""
import json, os
from pathlib import Path
from types import SimpleNamespace
from fuzz.kinds import KINDS, Kind
def read(path):
    if path.is_file() and path.name != "seed" and path.stat().st_size % 3 == 0:
        {BAD_READERS[verdict]}
def write_seeds(place):
    (place / "a.txt").write_text("some words\\n")
KINDS["bad"] = Kind(write_seeds, read)
""")
    environment = {"PYTHONPATH": str(tmp_path), "FUZZ_MODULES": "bad_kind"}
    mutations = "4" if verdict == "hang" else "12"  # each that hangs takes its five seconds
    ended = run_fuzz("--kinds", "bad", "--mutations", mutations, directory=tmp_path, environment=environment)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert f" {verdict}: " in ended.stdout
    assert any((tmp_path / "kept").glob("bad-0-*.txt"))


@pytest.mark.parametrize(
    ("state", "used", "ended"),
    [("R", 1.0, False), ("S", 1.0, True), ("R", pool.BUSY_SECONDS + 1, True)],
    ids=["waits for a processor", "waits for something else", "computes for ever"],
)
def test_a_worker_is_ended_unless_it_only_lacks_a_processor(
    state: str, used: float, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=lambda: now[0]))
    worker = object.__new__(pool._Worker)
    stops: list[bool] = []
    monkeypatch.setattr(worker, "_process", SimpleNamespace(poll=lambda: None), raising=False)
    monkeypatch.setattr(worker, "_read_state", lambda: (True, 0.0), raising=False)
    monkeypatch.setattr(worker, "stop", lambda: stops.append(True), raising=False)
    worker._note_progress()
    monkeypatch.setattr(worker, "_read_state", lambda: (state == "R", used), raising=False)
    for seconds in range(0, 20 * int(pool.WAIT_SECONDS), 60):
        now[0] = float(seconds)
        worker.watch()
    assert bool(stops) == ended
