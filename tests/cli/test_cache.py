"""`openipu cache`: what is kept, and how it is made smaller."""

from __future__ import annotations

import json
import os
import time

import pytest

from openipu.cli.commands.cache import format_age, parse_duration
from openipu.errors import OptionError
from openipu.store import make_key, open_store


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENIPU_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.delenv("OPENIPU_CACHE_LIMIT", raising=False)
    return open_store()


def fill(store, name, age_seconds=0.0, size=1000, **description):
    key = make_key({"name": name})
    store.write(key, {"content": bytes(size)}, {"program": name, "system": "pod16", **description}).close()
    used = time.time() - age_seconds
    os.utime(store.directory / key / "manifest", (used, used))
    return key


def test_the_list_has_a_row_for_every_entry_the_latest_first(call, store):
    fill(store, "training", age_seconds=7200, kind="kernels")
    fill(store, "inference")
    code, out, err = call("cache")
    assert (code, err) == (0, "")
    rows = [line for line in out.splitlines() if "pod16" in line]
    assert "inference" in rows[0]
    assert "training" in rows[1]
    assert "kernels" in rows[1]
    assert "2 h ago" in rows[1]
    assert "2 entries" in out


def test_an_empty_cache_is_no_error(call, store):
    assert call("cache", "list") == (0, f"The cache at {store.directory} is empty.\n", "")
    assert json.loads(call("cache", "--json")[1]) == []
    assert call("cache", "verify")[0] == 0
    assert call("cache", "clear")[0] == 0
    assert not store.directory.exists()


def test_json_has_everything_with_units(call, store):
    key = fill(store, "training", kind="kernels")
    (row,) = json.loads(call("cache", "list", "--json")[1])
    assert (row["key"], row["program"], row["system"], row["kind"]) == (key, "training", "pod16", "kernels")
    assert row["parts"] == {"content": 1000}
    assert row["size_bytes"] == store.size()
    assert not row["in_use"]


def test_the_size_is_shown_with_its_limit(call, store, monkeypatch):
    fill(store, "training", size=10**6)
    monkeypatch.setenv("OPENIPU_CACHE_LIMIT", "2 GB")
    assert json.loads(call("cache", "size", "--json")[1])["limit_bytes"] == 2 * 10**9
    assert "of a limit of" in call("cache", "size")[1]
    monkeypatch.setenv("OPENIPU_CACHE_LIMIT", "none")
    assert "no limit" in call("cache", "size")[1]


def test_prune_by_age_leaves_what_was_used_lately(call, store):
    fill(store, "old", age_seconds=3 * 86400)
    fill(store, "new", age_seconds=3600)
    code, out, _ = call("cache", "prune", "--older-than", "2d")
    assert code == 0
    assert "1 entry removed" in out
    assert [entry.description["program"] for entry in store.list()] == ["new"]


def test_prune_by_size_removes_the_least_recently_used(call, store):
    for name, age in (("a", 30), ("b", 20), ("c", 10)):
        fill(store, name, age_seconds=age)
    result = json.loads(call("cache", "prune", "--limit", "2kB", "--json")[1])
    assert result["removed"] == 2
    assert result["size_bytes"] == store.size() <= 2000
    assert [entry.description["program"] for entry in store.list()] == ["c"]


def test_clear_tells_what_a_process_still_uses(call, store):
    fill(store, "idle")
    entry = store.read(fill(store, "busy"))
    assert "in use" in call("cache")[1]
    code, out, _ = call("cache", "clear")
    assert code == 0
    assert "1 entry removed" in out
    assert "1 entry stayed" in out
    entry.close()
    call("cache", "clear")
    assert store.list() == ()


def test_verify_fails_where_something_is_damaged_and_removes_it(call, store):
    fill(store, "whole")
    key = fill(store, "broken")
    (part,) = (store.directory / key).glob("content.*")
    part.write_bytes(b"x")
    code, out, _ = call("cache", "verify")
    assert code == 1
    assert key[:12] in out
    assert "1 entry damaged and removed, 1 entry as written" in out
    assert call("cache", "verify")[0] == 0


def test_another_directory_can_be_looked_after(call, store, tmp_path):
    other = open_store(tmp_path / "other")
    fill(other, "elsewhere")
    assert "elsewhere" in call("cache", "--directory", str(tmp_path / "other"))[1]
    assert "elsewhere" not in call("cache")[1]
    code, _, err = call("cache", "--directory", str(tmp_path / "nowhere"))
    assert code == 2
    assert "There is no directory" in err


def test_clear_touches_nothing_but_entries(call, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / ("x" * 64)).mkdir()
    (tmp_path / "file").write_text("content")
    call("cache", "clear", "--directory", str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "precious", "x" * 64]


def test_path_says_where_and_why_native_code_is_not_kept(call, store):
    assert call("cache", "path") == (0, f"{store.directory}\n", "")
    store.directory.mkdir()
    store.directory.chmod(0o777)
    code, out, err = call("cache", "path")
    assert (code, out) == (0, f"{store.directory}\n")
    assert "others may write" in " ".join(err.split())


@pytest.mark.parametrize(
    "words",
    [
        ("prune", "--limit", "much"),
        ("prune", "--older-than", "yesterday"),
        ("list", "--limit", "1MB"),
        ("shrink",),
    ],
)
def test_wrong_usage_is_exit_code_2(call, store, words):
    code, _, err = call("cache", *words)
    assert code == 2
    assert "--limit" in err or "--older-than" in err or "invalid choice" in err


def test_times_are_numbers_with_a_unit():
    assert [parse_duration(text) for text in ("90s", "2 m", "1.5h", "1d", "1w")] == [90, 120, 5400, 86400, 604800]
    with pytest.raises(OptionError, match="as in 30d"):
        parse_duration("30")
    assert [format_age(seconds) for seconds in (-1, 5, 90, 7300, 200000)] == ["0 s", "5 s", "2 min", "2 h", "2 d"]


def test_the_command_needs_no_torch(shell, store):
    code = "import sys; from openipu.cli import main; main(['cache']); sys.exit('torch' in sys.modules)"
    assert shell(program=("-c", code)).returncode == 0
