"""A compiler in the background gets out of the program's way, and never outlives it."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from openipu.run.kernels.build import KernelBuild
from openipu.run.kernels.catalog import WINOGRAD
from openipu.run.kernels.process import Priority, lower_priority
from openipu.store import open_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes in /proc"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler"),
]

PATIENCE_SECONDS = 900  # a guard against hangs on a busy machine, nothing else

PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever started the tests by nohup ignores it
from openipu.run.kernels.build import KernelBuild
from openipu.run.kernels.catalog import WINOGRAD
from openipu.store import open_store

# Whether it is in the background makes no difference to how it ends, but to how soon it has begun.
build = KernelBuild(WINOGRAD, open_store(), background=False)
if os.fork() == 0:  # as a data loader does: it inherits every pipe
    time.sleep(600)
    os._exit(0)
print(build.process.pid, flush=True)
if sys.argv[1] == "wait":
    time.sleep(600)
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENIPU_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def build(cache):
    made = KernelBuild(WINOGRAD, open_store(), background=True)
    yield made
    made.stop()


@pytest.fixture
def start_program(cache):
    """A program that compiles in the background: itself, and the process that compiles."""
    started = []

    def start(what):
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, what], stdout=subprocess.PIPE, text=True, process_group=0
        )
        started.append(program)
        return program, int(program.stdout.readline())

    yield start
    for program in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)  # its data loader
        program.wait()
        program.stdout.close()


def list_group(group):
    """The processes of a group that run, with their names."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            state, _, own = rest.split()[:3]
            if int(own) == group and state != "Z":
                found[int(entry.name)] = name
    return found


def wait_for(happened, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := happened()):
        assert time.monotonic() < deadline, f"{what} in {PATIENCE_SECONDS} s"
        time.sleep(0.05)
    return found


def wait_for_compiler(group):
    """Until g++ has started the compiler proper."""
    return wait_for(
        lambda: [pid for pid, name in list_group(group).items() if name == "cc1plus"], "no C++ compiler was started"
    )[0]


def wait_for_end(group):
    wait_for(lambda: not list_group(group), "the compiler did not end")


def list_scratch(cache):
    return [path.name for path in (cache / "scratch").glob("build-*")]


def read_autogroup(pid):
    """None where the kernel has no such groups, or has put the process into none: the file is empty then."""
    path = Path(f"/proc/{pid}/autogroup")
    words = path.read_text().split() if path.exists() else []
    return words[0] if words else None


def assert_keeps_out_of_the_way(pid, group):
    assert os.getsid(pid) == os.getsid(0), "another session is another scheduling group"
    assert read_autogroup(pid) == read_autogroup("self")
    assert os.getpgid(pid) == group != os.getpgid(0)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    if own + 14 <= 19:
        assert os.sched_getscheduler(pid) == os.SCHED_BATCH
        assert os.getpriority(os.PRIO_PROCESS, pid) == own + 14, "4 % of a core beside a thread that never sleeps"
    else:  # niceness has no room for such a distance
        assert os.sched_getscheduler(pid) == os.SCHED_IDLE


def test_a_compiler_in_the_background_runs_far_below_the_program_and_in_its_session(build):
    assert build.process.priority in (Priority.LOW, Priority.IDLE)
    assert_keeps_out_of_the_way(build.process.pid, build.process.pid)


def test_a_compiler_that_is_waited_for_keeps_the_priority_of_the_program(cache):
    build = KernelBuild(WINOGRAD, open_store(), background=False)
    assert os.sched_getscheduler(build.process.pid) == os.sched_getscheduler(0)
    assert os.getpriority(os.PRIO_PROCESS, build.process.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpgid(build.process.pid) == build.process.pid
    build.stop()


@pytest.mark.slow
def test_a_compiler_ends_with_what_it_has_started(cache):
    build = KernelBuild(WINOGRAD, open_store(), background=False)
    group = build.process.pid
    wait_for_compiler(group)
    assert list_scratch(cache)
    build.stop()
    wait_for_end(group)
    assert not list_scratch(cache)


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, "exit"])
def test_a_compiler_ends_with_its_program_however_that_ends(start_program, cache, way):
    program, group = start_program("go on" if way == "exit" else "wait")
    if way != "exit":
        assert list_group(group)
        program.send_signal(way)
    program.wait(timeout=PATIENCE_SECONDS)
    wait_for_end(group)
    assert not list_scratch(cache)


@pytest.mark.slow
@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_ends_in_the_middle_of_a_compilation_leaves_no_process_and_no_file(start_program, cache, way):
    program, group = start_program("wait")
    wait_for_compiler(group)
    program.send_signal(way)
    program.wait(timeout=PATIENCE_SECONDS)
    wait_for_end(group)
    left = [path for path in cache.rglob("*") if path.is_file() and path.name not in (".door", ".hold", ".use")]
    assert not left, "neither scratch files nor half an entry"


def test_a_compiler_that_is_killed_takes_nothing_with_it_and_is_said_to_have_died(build, cache):
    os.kill(build.process.pid, signal.SIGKILL)
    wait_for(lambda: build.done, "its death was not noticed")
    with pytest.raises(Exception, match="was stopped"):
        build.finish()


def test_what_a_process_starts_is_as_far_down_as_itself():
    starter = "import subprocess, sys; input(); print(subprocess.Popen(['sleep', '600']).pid, flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", starter], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
    )
    try:
        lower_priority(process.pid)
        process.stdin.write("now\n")
        process.stdin.flush()
        assert_keeps_out_of_the_way(int(process.stdout.readline()), process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


PRIORITIES = """
import os, subprocess, sys
from openipu.run.kernels.process import lower_priority, read_priority

os.nice(int(sys.argv[1]))
sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(read_priority(sleeper.pid), lower_priority(sleeper.pid), read_priority(os.getpid()), sep=", ")
sleeper.communicate()
print(lower_priority(sleeper.pid))
"""


@pytest.mark.parametrize(
    ("further", "expected"),
    [(0, "low priority"), (20, "idle priority")],
    ids=["below the program", "below a program that is far down itself"],
)
def test_priorities_are_read_back_from_the_system(further, expected):
    if os.getpriority(os.PRIO_PROCESS, 0) > 5:
        pytest.skip("the tests themselves run far down")
    found = subprocess.run(
        [sys.executable, "-c", PRIORITIES, str(further)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert found == [f"normal priority, {expected}, normal priority", "normal priority"]


def test_a_compiler_may_be_started_by_a_thread_that_ends(cache):
    made = []
    thread = threading.Thread(target=lambda: made.append(KernelBuild(WINOGRAD, open_store(), background=True)))
    thread.start()
    thread.join()
    (build,) = made
    time.sleep(1.0)  # it looks at its parent twice a second
    assert not build.done or build.process.wait() == 0, "it ended with the thread"
    build.stop()


def test_a_forked_child_that_ends_leaves_its_parents_compiler_alone(cache):
    build = KernelBuild(WINOGRAD, open_store(), background=True)
    child = os.fork()
    if child == 0:
        build.stop()  # as at the end of a process, or when the program is forgotten
        os._exit(0)
    os.waitpid(child, 0)
    assert not build.done or build.process.wait() == 0, "it ended with the child"
    assert list_scratch(cache)
    build.stop()
    assert not list_scratch(cache)
