"""The command line in a real terminal of 80 columns: nothing is wider, and no word is broken."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

COLUMNS = 80
_STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
MODELS = """\
import torch
from openipu.jobs import PlanningJob

def a_job_with_a_name_that_is_long():
    with torch.device("meta"):
        model = torch.nn.Linear(20_000, 20_000)
    return PlanningJob(model=model, args=(torch.empty(8, 20_000),))
"""


@pytest.fixture
def show(tmp_path):
    """What a command shows in a terminal of 80 columns, line by line."""

    def run(*words):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
        process = subprocess.Popen(
            [sys.executable, "-m", "openipu", *words],
            cwd=tmp_path,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**environment, "TERM": "xterm"},
        )
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # the other end is closed: all was read
            pass
        os.close(ours)
        process.wait()
        return _STYLES.sub("", shown.decode()).replace("\r\n", "\n").split("\n")

    return run


COMMANDS = [
    "run",
    "plan",
    "auto",
    "sweep",
    "compare",
    "report",
    "trace",
    "systems",
    "validate",
    "pod",
    "cache",
    "doctor",
]


@pytest.mark.parametrize("words", [[], *([command] for command in COMMANDS), ["pod", "create"]])
def test_help_keeps_to_the_terminal(show, words):
    lines = show(*words, "--help")
    assert lines[0].startswith("usage: openipu")
    assert [line for line in lines if len(line) > COLUMNS] == []


def test_a_command_too_long_for_a_line_can_be_pasted(show):
    lines = show("report", "--help")
    broken = next(number for number, line in enumerate(lines) if line.endswith(" \\"))
    assert lines[broken].startswith("  openipu report")
    assert lines[broken + 1].startswith("    --check")


def test_the_catalog_keeps_names_and_figures_in_one_line(show):
    lines = show("systems")
    assert [line for line in lines if len(line) > COLUMNS] == []
    assert any(re.match(r"bow-pod16 +bow +16 +897 MiB +5\.577 PFLOPS +Bow Pod16: four", line) for line in lines)
    assert "joined by GW-Links" in " ".join(" ".join(lines).split()), "words wrap, none is broken"


def test_the_figures_of_one_system_have_their_sources_below_them(show):
    lines = show("systems", "bow-2000")
    assert [line for line in lines if len(line) > COLUMNS] == []
    at = next(number for number, line in enumerate(lines) if line.startswith("clock_hz"))
    assert "published" in lines[at]
    assert lines[at + 1].startswith("    vendor notebooks; ")


def test_a_plan_keeps_figures_in_one_line_and_lets_go_of_what_can_be_spared(show, tmp_path):
    (tmp_path / "models.py").write_text(MODELS)
    lines = show("plan", "models.py:a_job_with_a_name_that_is_long", "--advice-plans", "4")
    row = next(line for line in lines if line.startswith("a_job_with_a_name_that"))
    assert re.search(r" no +1354 of 589 +1,220,005 +659 µs +12,131$", row.rstrip()), (
        "the name gives way, no figure does"
    )
    start = next(number for number, line in enumerate(lines) if line.startswith("planned again with"))
    table = lines[start : next(number for number, line in enumerate(lines) if line.startswith("Not tried"))]
    assert [line for line in table if len(line) > COLUMNS] == []
    assert any(
        re.match(r"half precision +no +\d+ +\d+ KiB +-[\d,]+ +[\d.]+ [x%] faster$", line.rstrip()) for line in table
    )


def test_a_message_breaks_between_words(show):
    lines = show("systems", "pood16")
    assert [line for line in lines if len(line) > COLUMNS] == []
    assert "Did you mean 'pod16'?" in lines[0]
    assert all(name in re.split(r"[,. ]+", " ".join(lines)) for name in ("bow-pod256", "bow-2000"))
