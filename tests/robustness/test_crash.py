"""A few of the kills of `make crash`: what processes that die in the middle of their work lose, and what they leave."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("crash.py")


def test_nothing_is_lost_and_nothing_is_left_by_processes_that_are_killed():
    words = [sys.executable, str(SCRIPT), "--kills", "20", "--seed", "7"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 killed" in done.stdout
    assert "nothing lost, nothing left" in done.stdout
