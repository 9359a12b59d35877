"""`openipu run`: a script sees what plain Python would show it, and the summary follows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from openipu.cli.commands.run import split_script

SCRIPT = """\
import atexit, json, os, sys
import neighbour
atexit.register(lambda: print("at exit"))
print(json.dumps({
    "name": __name__, "file": os.path.basename(__file__), "argv": sys.argv, "path": sys.path[0],
    "main": sys.modules["__main__"].__dict__ is globals(), "neighbour": neighbour.VALUE,
}))
"""
# A shell that starts jobs in the background lets them ignore the signal.
INTERRUPTING = """import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
os.kill(os.getpid(), signal.SIGINT)"""

FAILING = """\
def fail():
    raise ValueError("no good")

print("before")
fail()
"""
TRAINING = """\
import sys
import poptorch
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 4)

    def forward(self, points, labels):
        logits = self.layer(points)
        return logits, torch.nn.functional.cross_entropy(logits, labels)

model = Model()
trainer = poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.1))
_, loss = trainer(torch.ones(8, 16), torch.zeros(8, dtype=torch.long))
for width in (2, 3):
    poptorch.inferenceModel(torch.nn.Linear(16, width))(torch.ones(8, 16))
print(f"loss {loss.item():.2f}")
if "--fail" in sys.argv:
    raise RuntimeError("after training")
"""


@pytest.mark.parametrize(
    ("words", "own", "script"),
    [
        ("run a.py", "run", "a.py"),
        ("run a.py --system x --help", "run", "a.py --system x --help"),
        ("run --system pod16 --quiet a.py -m b", "run --system pod16 --quiet", "a.py -m b"),
        ("run --system=pod16 a.py", "run --system=pod16", "a.py"),
        ("run --profile out -m package.module --epochs 1", "run --profile out -m package.module", "--epochs 1"),
        ("run -mpackage.module --epochs 1", "run -mpackage.module", "--epochs 1"),
        ("run -- a.py --x", "run", "a.py --x"),
        ("--debug run a.py --debug", "--debug run", "a.py --debug"),
        ("run --help", "run --help", ""),
        ("run", "run", ""),
        ("run --system", "run --system", ""),
        ("plan a.py:run --json", "plan a.py:run --json", ""),
        ("", "", ""),
    ],
)
def test_options_before_the_script_are_ours_and_all_after_it_are_the_scripts(words, own, script):
    assert split_script(words.split()) == (own.split(), script.split())


def test_a_script_sees_what_plain_python_shows_it(shell, tmp_path):
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "neighbour.py").write_text("VALUE = 7\n")
    (scripts / "look.py").write_text(SCRIPT)
    plain = shell(program=("scripts/look.py", "--flag", "-m"))
    ours = shell("run", "--quiet", "scripts/look.py", "--flag", "-m")
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, plain.stdout, "")
    seen = json.loads(ours.stdout.splitlines()[0])
    assert seen["argv"] == ["scripts/look.py", "--flag", "-m"]
    assert seen["name"] == "__main__"


def test_torch_is_not_there_before_the_script_wants_it(shell, tmp_path):
    (tmp_path / "early.py").write_text("import sys\nprint('torch' in sys.modules)\n")
    assert shell("run", "--quiet", "early.py").stdout == "False\n"


def test_a_module_sees_what_plain_python_shows_it(shell, tmp_path):
    (tmp_path / "neighbour.py").write_text("VALUE = 7\n")
    (tmp_path / "look.py").write_text(SCRIPT)
    plain = shell("--flag", program=("-m", "look"))
    ours = shell("run", "--quiet", "-m", "look", "--flag")
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, plain.stdout, "")


def test_a_directory_runs_by_its_main_file(shell, tmp_path):
    program = tmp_path / "program"
    program.mkdir()
    (program / "neighbour.py").write_text("VALUE = 7\n")
    (program / "__main__.py").write_text(SCRIPT)
    plain = shell(program=("program", "--flag"))
    ours = shell("run", "--quiet", "program", "--flag")
    assert (ours.returncode, ours.stderr) == (0, "")
    expected = json.loads(plain.stdout.splitlines()[0])
    # absolute where plain Python keeps the word: the path stays right when the script changes its directory
    assert json.loads(ours.stdout.splitlines()[0]) == expected | {"argv": [str(program), "--flag"]}


def test_an_exception_shows_the_traceback_and_exit_code_of_plain_python(shell, tmp_path):
    (tmp_path / "fail.py").write_text(FAILING)
    plain = shell(program=("fail.py",))
    ours = shell("run", "--quiet", "fail.py")
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout) == (1, "before\n")
    assert ours.stderr == plain.stderr


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("import sys; sys.exit(7)", 7),
        ("raise SystemExit('stop here')", 1),
        ("def no(:", 1),
        (INTERRUPTING, -2),
    ],
)
def test_exit_codes_are_those_of_plain_python(shell, tmp_path, body, code):
    (tmp_path / "leave.py").write_text(body + "\n")
    plain = shell(program=("leave.py",))
    ours = shell("run", "--quiet", "leave.py")
    assert ours.returncode == plain.returncode == code
    assert ours.stderr == plain.stderr


def test_a_missing_front_end_is_explained(shell, tmp_path):
    (tmp_path / "old.py").write_text("import tessellate_ipu\n")
    done = shell("run", "--quiet", "old.py")
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr
    assert "does not provide tessellate_ipu yet" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "There is no script to run"),
        (["run", "absent.py"], "There is no script absent.py"),
        (["run", "."], "without a __main__.py"),
        (["run", "--system", "pod17", "a.py"], "Unknown system 'pod17'"),
        (["run", "--profile", "/dev/null/x", "a.py"], "--profile /dev/null/x"),
    ],
)
def test_what_cannot_start_is_told_at_once(call, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, _, err = call(*words)
    assert code == 2
    assert message in err


def test_a_module_that_is_not_there_is_named(shell):
    done = shell("run", "-m", "no_such_module_anywhere")
    assert done.returncode == 2
    assert "no_such_module_anywhere" in done.stderr


@pytest.fixture(scope="module")
def failed_training(tmp_path_factory) -> tuple[subprocess.CompletedProcess[str], Path]:
    directory = tmp_path_factory.mktemp("training")
    (directory / "train.py").write_text(TRAINING)
    words = ["run", "--system", "c600", "--profile", "out", "train.py", "--fail"]
    done = subprocess.run(
        [sys.executable, "-m", "openipu", *words],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done, directory


def test_the_summary_comes_also_when_the_script_fails_later(failed_training):
    done, _ = failed_training
    assert done.returncode == 1
    assert re.fullmatch(r"loss \d\.\d\d\n", done.stdout)
    assert done.stderr.index("RuntimeError: after training") < done.stderr.index("samples/s")
    assert "on c600 (modelled)" in done.stderr
    assert "fits: the fullest tile needs" in done.stderr


def test_the_profile_and_its_report_lie_where_the_summary_says(failed_training):
    done, directory = failed_training
    report = re.search(r"report: (\S+)", done.stderr)
    assert report is not None
    page = directory / report[1]
    assert page.parent.parent == directory / "out"
    assert page.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    assert (page.parent / "profile.pop").is_file()


def test_programs_of_one_name_keep_profiles_of_their_own(failed_training):
    _, directory = failed_training
    written = sorted(path.parent.name for path in (directory / "out").glob("*/profile.pop"))
    assert written == ["inference", "inference-2", "training"]


def test_a_script_without_ipu_programs_is_told_so(shell, tmp_path):
    (tmp_path / "plain.py").write_text("print('hello')\n")
    done = shell("run", "plain.py")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "compiled no IPU program" in done.stderr
