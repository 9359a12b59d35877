"""How the command line behaves: mistyped words, readers that leave, Ctrl-C, tracebacks that end at the user's line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

ITEM = """\
import torch
import poptorch


class Model(torch.nn.Module):
    def forward(self, x):
        return x if x.sum().item() > 0 else -x


def start():
    return poptorch.inferenceModel(Model())(torch.ones(2))


{call}
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["rnu", "x.py"], "there is no 'rnu'. Did you mean 'run'?"),
        (["sistems"], "Did you mean 'systems'?"),
        (["pod", "craete"], "Did you mean 'create'?"),
        (["run", "--sytem", "pod16", "x.py"], "there is no option --sytem. Did you mean '--system'?"),
        (["plan", "--replcas=2", "x.py:y"], "there is no option --replcas. Did you mean '--replicas'?"),
        (["run", "--engine", "kernls", "x.py"], "Did you mean 'kernels'?"),
        (["systems", "Pood16"], "Did you mean 'pod16'?"),
        (
            ["plan", "models.py:bert_bas"],
            "has no function 'bert_bas'; functions there: bert_base. Did you mean 'bert_base'?",
        ),
        (["plan", "model.py:bert_base"], "Did you mean 'models.py'?"),
        (["run", "modles.py"], "Did you mean 'models.py'?"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest(call, tmp_path, monkeypatch, words, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text("def bert_base(): pass\n")
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert expected in err


def test_a_name_like_no_other_is_not_answered_with_a_guess(call):
    assert "Did you mean" not in call("fly")[2]
    assert "Did you mean" not in call("systems", "mainframe")[2]


def test_a_command_complains_with_its_own_usage(call):
    err = call("run", "--sytem", "pod16", "x.py")[2]
    assert err.startswith("usage: openipu run [options] script.py")
    assert call("systems", "pod16", "pod64")[2].endswith("openipu systems: error: too many words: pod64\n")


@pytest.mark.parametrize("words", [["systems", "bow-2000"], ["systems"], ["systems", "--json"], ["--help"]])
def test_a_reader_that_leaves_is_no_failure(tmp_path, words):
    """As in `openipu systems | head -1`: the reader is gone before the first word."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "openipu", *words], stdout=closed, stderr=subprocess.PIPE, check=False, timeout=600
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_of_both_streams_that_leaves_is_no_failure():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "openipu", "systems", "pood16"],
            stdout=closed,
            stderr=closed,
            check=False,
            timeout=600,
        )
    assert done.returncode in (0, 2)


def interrupt(tmp_path, *words):
    """Press Ctrl-C when `module.py` is being imported.

    It sleeps in short turns: a signal between Python's last look and the system's call does not wake a sleeper.
    """
    (tmp_path / "module.py").write_text("open('reached', 'w').close()\nimport time\nwhile True: time.sleep(0.1)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "openipu", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in a background job
    )
    while not (tmp_path / "reached").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def test_ctrl_c_while_a_model_is_imported_is_quiet(tmp_path):
    code, out, err = interrupt(tmp_path, "plan", "module.py:job")
    assert (code, out, err) == (-signal.SIGINT, "", ""), "a shell shows 130"


def test_ctrl_c_in_a_script_is_shown_as_plain_python_shows_it(tmp_path):
    code, _, err = interrupt(tmp_path, "run", "module.py")
    assert code == -signal.SIGINT
    assert '/module.py", line ' in err
    assert "compiled no IPU program" not in err


def test_debug_shows_where_ctrl_c_came(tmp_path):
    code, _, err = interrupt(tmp_path, "--debug", "plan", "module.py:job")
    assert code == -signal.SIGINT
    assert '/module.py", line ' in err


def test_the_traceback_of_a_capture_error_is_the_users_and_ends_at_their_line(shell, tmp_path):
    (tmp_path / "item.py").write_text(ITEM.format(call="start()"))
    done = shell("run", "item.py")
    assert done.returncode == 1
    trace = done.stderr[done.stderr.index("Traceback") :]
    frames = [line.split(", in ")[1] for line in trace.splitlines() if line.startswith("  File ")]
    assert frames == ["<module>", "start", "forward"]
    assert trace.count("Traceback") == trace.count("cannot read values") == 1
    assert "compiled no IPU program" not in done.stderr
    plain = shell(program=("item.py",)).stderr
    assert plain.count("Traceback") == plain.count("cannot read values") == 1
    frames = [line for line in plain.splitlines() if line.startswith("  File ")]
    assert frames[-1].endswith('item.py", line 7, in forward')


def test_debug_shows_the_whole_traceback_of_a_capture_error(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENIPU_DEBUG", "1")
    (tmp_path / "item.py").write_text(ITEM.format(call="start()"))
    assert "direct cause" in shell("run", "item.py").stderr


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("print('no front end')", "`openipu doctor` lists the front ends that lead to one."),
        ("import poptorch", "so there is nothing to report."),
        ("raise SystemExit(3)", None),
        ("raise ValueError", None),
        (ITEM.format(call="start()"), None),
        (ITEM.format(call="try:\n    start()\nexcept poptorch.Error:\n    pass"), "so there is nothing to report."),
    ],
)
def test_that_nothing_was_compiled_is_said_only_where_it_is_news(shell, tmp_path, script, expected):
    (tmp_path / "script.py").write_text(script)
    err = " ".join(shell("run", "script.py").stderr.split())
    assert ("compiled no IPU program" in err) == (expected is not None)
    assert expected is None or expected in err
    assert ("openipu doctor" in err) == ("no front end" in script)


def test_a_profile_that_the_script_asked_for_is_named(shell, tmp_path):
    (tmp_path / "script.py").write_text(
        "import torch, poptorch\n"
        "options = poptorch.Options().enableProfiling('own')\n"
        "poptorch.inferenceModel(torch.nn.Linear(2, 2), options)(torch.ones(1, 2))\n"
    )
    err = shell("run", "script.py").stderr
    (profile,) = tmp_path.glob("own/**/profile.pop")
    assert f"profile: openipu report {profile.parent.relative_to(tmp_path)} shows it" in err
