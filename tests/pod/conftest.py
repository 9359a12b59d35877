"""A state directory for each test, and programs in other processes that hold IPUs."""

import subprocess
import sys

import pytest

HOLD = """
import sys, time
from openipu.pod import find_pod
lease = find_pod().attach(int(sys.argv[1]))
print("holds" if lease else "refused", lease.first if lease else "", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    directory = tmp_path / "state"
    monkeypatch.setenv("OPENIPU_STATE_DIR", str(directory))
    for name in ("OPENIPU_POD", "OPENIPU_SYSTEM", "IPUOF_CONFIG_PATH", "IPUOF_VIPU_API_PARTITION_ID"):
        monkeypatch.delenv(name, raising=False)
    return directory


@pytest.fixture
def start_holder():
    """Start a process that takes so many IPUs and keeps them until it is ended."""
    running = []

    def start(ipus):
        words = [sys.executable, "-c", HOLD, str(ipus)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(process)
        process.answer = process.stdout.readline().split()
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()
