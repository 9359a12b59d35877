"""SIGTERM under `openipu run`: a summary, then the end that plain Python has; a script's own handler decides."""

import os
import signal
import subprocess
import sys

import pytest

COMPILE = """\
import os, signal, sys, time
import poptorch, torch
options = poptorch.Options().showCompilationProgressBar(False)
poptorch.inferenceModel(torch.nn.Linear(16, 2), options)(torch.ones(8, 16))
"""
WAIT = """\
print("ready", flush=True)
sys.stdin.readline()
print("went on", flush=True)
"""
LONG = 1800  # seconds, after which a test has hung


@pytest.fixture
def terminate(tmp_path):
    """Run a script until it says that it is ready, send SIGTERM, and return its exit code and what it wrote."""
    running = []

    def run(script, *options, go_on=False, words=()):
        (tmp_path / "script.py").write_text(script)
        process = subprocess.Popen(
            [*words, sys.executable, "-m", "openipu", "run", *options, "script.py"],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate("\n" if go_on else None, timeout=LONG)
        return process.returncode, out, err

    yield run
    for process in running:
        process.kill()
        process.communicate()


def test_the_summary_is_printed_and_the_process_ends_by_the_signal(terminate, tmp_path):
    code, out, err = terminate(COMPILE + WAIT, "--profile", "out")
    assert (code, out) == (-signal.SIGTERM, "")
    assert "inference on bow-2000 (modelled)" in err
    assert "samples/s" in err
    assert "Traceback" not in err
    assert (tmp_path / "out" / "inference" / "report.html").is_file()


def test_a_shell_sees_143(terminate):
    code, _, err = terminate(COMPILE + WAIT, words=("sh", "-c", 'exec "$0" "$@"; exit'))
    assert code == -signal.SIGTERM  # of the very process; what a shell makes of it:
    shown = subprocess.run(["sh", "-c", "sh -c 'kill -TERM $$'; echo $?"], capture_output=True, text=True, check=False)
    assert (shown.stdout, "samples/s" in err) == ("143\n", True)


def test_where_nothing_was_compiled_the_process_just_ends(terminate):
    assert terminate("import sys\n" + WAIT) == (-signal.SIGTERM, "", "")


@pytest.mark.parametrize(
    ("handler", "code", "out"),
    [
        ("lambda number, frame: sys.exit(3)", 3, ""),
        ("lambda number, frame: None", 0, "went on\n"),
        ("signal.SIG_IGN", 0, "went on\n"),
    ],
)
def test_a_scripts_own_handler_decides_and_the_summary_follows_its_end(terminate, handler, code, out):
    script = COMPILE + f"signal.signal(signal.SIGTERM, {handler})\n" + WAIT
    found = terminate(script, go_on=True)
    assert found[:2] == (code, out)
    assert found[2].count("samples/s") == 1


def test_a_handler_that_calls_the_one_before_it_goes_on_as_with_plain_python(terminate):
    chain = """\
before = signal.getsignal(signal.SIGTERM)
def note(number, frame):
    print("noted", flush=True)
    if callable(before):
        before(number, frame)
signal.signal(signal.SIGTERM, note)
"""
    code, out, err = terminate(COMPILE + chain + WAIT, go_on=True)
    assert (code, out) == (0, "noted\nwent on\n")
    assert err.count("samples/s") == 1


def test_forked_workers_end_as_they_always_did(terminate):
    fork = """\
child = os.fork()
if child == 0:
    while True:
        time.sleep(60)
os.kill(child, signal.SIGTERM)
_, status = os.waitpid(child, 0)
assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM, status
"""
    code, _, err = terminate(COMPILE + fork + WAIT)
    assert code == -signal.SIGTERM
    assert err.count("samples/s") == 1


def test_a_signal_that_the_starter_ignores_stays_ignored(terminate):
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # children inherit it
    try:
        code, out, err = terminate(COMPILE + WAIT, go_on=True)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (code, out, err.count("samples/s")) == (0, "went on\n", 1)


def test_the_signal_has_its_usual_effect_when_the_script_is_done(tmp_path):
    (tmp_path / "script.py").write_text("print('done')\n")
    script = (
        "import os, signal\nfrom openipu.cli import main\nmain(['run', '--quiet', 'script.py'])\n"
        "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=os.environ, check=False, timeout=LONG)
    assert done.returncode == 0
