"""The store when several processes have it: one compiles, a crash leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from openipu.store import make_key, open_store

KEY = make_key({"program": "shared"})
PRELUDE = f"""
import os, sys, time
from pathlib import Path
from openipu.store import make_key, open_store
directory, log = Path(sys.argv[1]), Path(sys.argv[2])
key = {KEY!r}
store = open_store(directory)
def note(text):
    with open(log, "a") as file:
        file.write(text + "\\n")
"""


def start(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


def wait_for(condition, seconds=600):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


@pytest.fixture
def places(tmp_path):
    (tmp_path / "log").touch()
    return tmp_path / "cache", tmp_path / "log"


def test_of_eight_processes_one_compiles_and_all_have_the_result(places):
    directory, log = places
    code = """
def make():
    note(f"compiled by {os.getpid()}")
    time.sleep(0.3)
    return {"content": os.urandom(100_000)}
entry, made = store.obtain(key, make)
note("done")
import hashlib
print(hashlib.sha256(entry.read("content")).hexdigest(), made)
"""
    processes = [start(code, directory, log) for _ in range(8)]
    results = [process.communicate(timeout=600)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    assert len({digest for digest, _ in results}) == 1
    assert sorted(made for _, made in results) == ["False"] * 7 + ["True"]
    assert log.read_text().count("compiled by") == 1


def test_when_the_compiling_process_is_killed_another_one_takes_over(places):
    directory, log = places
    code = """
def make():
    note(f"compiling in {os.getpid()}")
    if len(sys.argv) > 3:
        time.sleep(600)
    return {"content": b"made"}
entry, made = store.obtain(key, make)
print(entry.read("content").decode(), made)
"""
    first = start(code, directory, log, "hang")
    wait_for(lambda: "compiling" in log.read_text())
    second = start(code, directory, log)
    time.sleep(0.5)
    assert second.poll() is None  # waits
    first.kill()
    assert second.communicate(timeout=600)[0].split() == ["made", "True"]
    first.communicate()


def test_a_process_killed_while_it_writes_leaves_no_half_entry(places):
    directory, log = places
    code = """
import openipu.store.entry as entry
content = bytes(range(256)) * 4000
number = 0
note("started")
while True:
    number += 1
    store.write(key, {"a": content, "b": content[::-1] + bytes([number % 256])}, {"number": number})
"""
    store = open_store(directory)
    for round_ in range(5):
        log.write_text("")
        process = start(code, directory, log)
        wait_for(lambda: "started" in log.read_text())
        time.sleep(0.03 + 0.017 * round_)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        entry = store.read(KEY)
        if entry is not None:
            assert entry.read("b")[:-1] == entry.read("a")[::-1]
            assert entry.read("b")[-1] == entry.description["number"] % 256
            entry.close()
        store.prune()
        left = {path.name for path in directory.rglob("*") if path.is_file()}
        assert not [name for name in left if name.endswith(".tmp")]
        assert len(left - {".use", ".hold", ".write"}) in (0, 3)  # nothing, or a manifest and two parts


def test_a_process_killed_before_its_first_manifest_leaves_nothing(places):
    directory, log = places
    code = """
import openipu.store.entry as entry
import openipu.store.store as module
def stop(*arguments):
    note("parts are there")
    time.sleep(600)
module.write_manifest = stop
store.write(key, {"a": bytes(100_000)})
"""
    process = start(code, directory, log)
    wait_for(lambda: "parts are there" in log.read_text())
    store = open_store(directory)
    store.prune()
    assert list((directory / KEY).glob("a.*")), "a writer that lives must not be disturbed"
    process.kill()
    process.communicate()
    assert store.read(KEY) is None
    assert store.list() == ()
    store.prune()
    assert list(directory.iterdir()) == []


def test_readers_writers_and_removers_at_once_see_whole_entries_only(places):
    directory, log = places
    stop = log.with_name("stop")  # everybody goes on until all have met each other
    writer = """
number = int(sys.argv[4])
while not os.path.exists(sys.argv[3]):
    number = (number + 1) % 250
    entry = store.write(key, {"a": bytes([number]) * 5000, "b": bytes([number]) * 5000})
    assert entry is not None
    assert len(entry.read("a")) == len(entry.read("b")) == 5000
    entry.close()
    time.sleep(0.01)
"""
    reader = """
seen = 0
while not os.path.exists(sys.argv[3]):
    entry = store.read(key)
    if entry is not None:
        assert entry.read("a") == entry.read("b") and len(set(entry.read("a"))) == 1
        seen += 1
        entry.close()
        if seen == 50:
            note("has seen enough")
    time.sleep(0.004)
"""
    remover = """
removed = 0
while not os.path.exists(sys.argv[3]):
    before = removed
    removed += store.clear().entries
    if before < 20 <= removed:
        note("has removed enough")
    time.sleep(0.001)
"""
    processes = [start(writer, directory, log, stop, 0), start(writer, directory, log, stop, 100)]
    processes += [start(reader, directory, log, stop) for _ in range(2)] + [start(remover, directory, log, stop)]
    try:
        wait_for(lambda: log.read_text().count("enough") == 3 or any(process.poll() for process in processes))
    finally:
        stop.touch()
    for process in processes:
        process.communicate(timeout=600)
    assert [process.returncode for process in processes] == [0] * 5


def test_a_forked_child_neither_keeps_nor_breaks_the_lock_of_its_parent(tmp_path):
    store = open_store(tmp_path)
    store.write(KEY, {"a": b""}).close()
    entry = store.read(KEY)
    child = os.fork()
    if child == 0:
        entry.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert store.list()[0].in_use
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    entry.close()
    assert not store.list()[0].in_use
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_store_in_a_moved_directory_works_on(tmp_path):
    open_store(tmp_path / "old").write(KEY, {"a": b"content"}).close()
    (tmp_path / "old").rename(tmp_path / "new")
    assert open_store(Path(tmp_path / "new")).read(KEY).read("a") == b"content"
