"""Heartbeats of instances: who is frozen, who is only busy, and who is gone. Looks are counted, no clock is read."""

import os
import subprocess
import sys

import pytest

from openipu.errors import OptionError
from openipu.heartbeat import VARIABLE, read_beats, start_heartbeat
from poprun.main import DEFAULT_TIMEOUT_SECONDS, _choose_timeout
from poprun.options import TIMEOUT_VARIABLE, parse_options
from poprun.watch import LOOKS, Watch

BEAT = """
import subprocess, sys
from openipu.heartbeat import start_heartbeat
print(start_heartbeat(), start_heartbeat(), flush=True)
child = [sys.executable, "-c", "from openipu.heartbeat import start_heartbeat; print(start_heartbeat())"]
print(subprocess.run(child, capture_output=True, text=True).stdout.strip(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start_instance(tmp_path):
    """Start a process that beats every so many seconds, as an instance of that number."""
    running = []

    def start(rank, seconds):
        environment = {**os.environ, VARIABLE: f"{seconds}:{tmp_path}", "RANK": str(rank)}
        process = subprocess.Popen(
            [sys.executable, "-c", BEAT], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        running.append(process)
        assert process.stdout.readline() == "True False\n"  # a second call does nothing
        assert process.stdout.readline() == "False\n"  # and a process that it starts does not beat in its place
        while not any(beat.instance == rank for beat in read_beats(tmp_path)):
            pass  # it has the lock, and is about to write
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_an_instance_that_beats_no_more_is_frozen_after_some_looks(tmp_path, start_instance):
    process = start_instance(3, seconds=10_000)  # beats once, then as a stopped one does
    watch = Watch(tmp_path)
    assert [watch.look() for _ in range(LOOKS)] == [[]] * LOOKS
    [found] = watch.look()
    assert (found.instance, found.pid) == (3, process.pid)


def test_an_instance_that_beats_between_looks_is_alive_however_long_it_computes(tmp_path, start_instance):
    start_instance(0, seconds=0.001)
    watch = Watch(tmp_path)
    for _ in range(3 * LOOKS):
        [before] = read_beats(tmp_path)
        assert watch.look() == []
        while read_beats(tmp_path) == [before]:
            pass


def test_an_instance_that_has_ended_is_not_frozen(tmp_path, start_instance):
    process = start_instance(1, seconds=10_000)
    watch = Watch(tmp_path)
    watch.look()
    process.kill()
    process.wait()
    assert [watch.look() for _ in range(2 * LOOKS)] == [[]] * (2 * LOOKS)


def test_without_a_launcher_nothing_beats(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert not start_heartbeat()


def test_the_time_out_is_the_command_lines_else_the_environments_else_minutes(monkeypatch):
    monkeypatch.delenv(TIMEOUT_VARIABLE, raising=False)
    assert _choose_timeout(parse_options(["train.py"])) == DEFAULT_TIMEOUT_SECONDS
    monkeypatch.setenv(TIMEOUT_VARIABLE, "20")
    assert _choose_timeout(parse_options(["train.py"])) == 20
    assert _choose_timeout(parse_options(["--instance-timeout", "0", "train.py"])) == 0
    monkeypatch.setenv(TIMEOUT_VARIABLE, "soon")
    with pytest.raises(OptionError, match=r"OPENIPU_INSTANCE_TIMEOUT: 'soon' is not a number of seconds"):
        _choose_timeout(parse_options(["train.py"]))
