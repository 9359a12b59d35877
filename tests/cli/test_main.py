"""The frame: help, versions, wrong usage, and how errors reach the user."""

from __future__ import annotations

import pytest

from openipu import __version__


def test_no_words_print_the_help(call):
    code, out, _ = call()
    assert code == 0
    for command in ("run", "plan", "report", "systems", "doctor"):
        assert command in out


@pytest.mark.parametrize("command", ["run", "plan", "report", "systems", "doctor"])
def test_every_command_has_help_with_examples(call, command):
    code, out, _ = call(command, "--help")
    assert code == 0
    assert "examples" in out
    assert f"openipu {command}" in out


def test_the_version_is_the_packages(call):
    assert call("--version") == (0, f"openipu {__version__}\n", "")


@pytest.mark.parametrize("words", [["fly"], ["plan"], ["systems", "--colour"], ["run", "--speed", "3", "x.py"]])
def test_wrong_usage_exits_with_two(call, words):
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert "usage:" in err


def test_our_errors_are_one_message_without_a_traceback(call):
    code, out, err = call("systems", "pod17")
    assert (code, out) == (2, "")
    assert err.startswith("openipu systems: Unknown system 'pod17'")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("words", [["--debug", "systems", "pod17"], ["systems", "--debug", "pod17"]])
def test_debug_shows_the_traceback_before_or_after_the_command(call, words):
    code, _, err = call(*words)
    assert code == 2
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("openipu systems: Unknown system")


def test_debug_can_be_asked_for_in_the_environment(call, monkeypatch):
    monkeypatch.setenv("OPENIPU_DEBUG", "1")
    assert "Traceback" in call("systems", "pod17")[2]
    monkeypatch.setenv("OPENIPU_DEBUG", "0")
    assert "Traceback" not in call("systems", "pod17")[2]


def test_help_and_systems_do_not_load_torch(shell):
    program = (
        "import sys; from openipu.cli import main\n"
        "main(['systems']); main(['systems', 'bow-2000', '--json']); main([])\n"
        "sys.exit(3 if 'torch' in sys.modules else 0)"
    )
    assert shell(program=("-c", program)).returncode == 0


def test_a_reader_that_leaves_is_not_an_error(shell):
    program = (
        "import subprocess, sys\n"
        "writer = subprocess.Popen([sys.executable, '-m', 'openipu', 'systems', '--json'],\n"
        "                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)\n"
        "writer.stdout.close()\n"
        "sys.stderr.buffer.write(writer.stderr.read())\n"
        "sys.exit(writer.wait())"
    )
    done = shell(program=("-c", program))
    assert (done.returncode, done.stderr) == (0, "")
