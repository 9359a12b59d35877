"""How the tests of the command line call it: in this process where that is the same, else as a user's shell would."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from openipu.cli import main
from openipu.machine import SYSTEM_VARIABLE

Shell = Callable[..., subprocess.CompletedProcess[str]]
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (SYSTEM_VARIABLE, "OPENIPU_DEBUG", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call the command line in this process: exit code, standard output, standard error."""

    def call_main(*words: str) -> tuple[int, str, str]:
        try:
            code = main(words)
        except SystemExit as leave:  # argparse
            code = leave.code if isinstance(leave.code, int) else 1
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call_main


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Run `python -m openipu …` in a new process, in an empty directory."""

    def run(*words: str, program: tuple[str, ...] = ("-m", "openipu")) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *program, *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return run
