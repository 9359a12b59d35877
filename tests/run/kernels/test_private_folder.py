"""Compilers work in a folder of the user's own: nobody else can put anything there, and nothing is left of it."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from openipu.errors import ArchiveError
from openipu.run.kernels.build import KernelBuild, KernelBuildError, make_kernel_key
from openipu.run.kernels.catalog import GEMV
from openipu.run.kernels.process import make_environment
from openipu.run.kernels.scratch import open_scratch
from openipu.store import open_store

pytestmark = pytest.mark.slow

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENIPU_CACHE_DIR", str(tmp_path / "cache"))
    return open_store()


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """The system's temporary folder, as this test sees it."""
    (tmp_path / "shared").mkdir(mode=0o1777)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "shared"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path / "shared"


def test_a_folder_lies_below_the_cache_for_the_user_alone_and_is_removed(store):
    scratch = open_scratch(store)
    assert scratch.path.parent == store.directory / "scratch"
    for path in (scratch.path, scratch.path.parent, scratch.make_folder("tmp")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert store.list() == ()
    scratch.close()
    assert not scratch.path.exists()


def test_what_a_killed_program_has_left_is_removed_by_the_next_and_what_is_in_use_is_not(store):
    script = "import os, signal; from openipu.store import open_store; from openipu.run.kernels.scratch import *; "
    script += "s = open_scratch(open_store()); print(s.path, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL
    left = Path(ended.stdout.strip())
    assert left.exists()
    first = open_scratch(store)
    assert not left.exists()
    second = open_scratch(store)
    assert first.path.exists()
    assert second.path.exists()


def put_link(path):
    (path.parent / "theirs").mkdir(mode=0o700)
    path.symlink_to(path.parent / "theirs")


def put_dangling_link(path):
    path.symlink_to(path.parent / "nothing")


def put_open_folder(path):
    path.mkdir()
    path.chmod(0o777)


def put_foreign_folder(path):
    path.mkdir(mode=0o700)
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(path, 12345, 12345)


@pytest.mark.parametrize(
    ("put", "reason"),
    [
        (put_link, "it is a symbolic link"),
        (put_dangling_link, "it is a symbolic link"),
        (put_open_folder, r"it is open to others \(mode 777\)"),
        (put_foreign_folder, "it belongs to user 12345"),
        (os.mkfifo, "it is not a directory"),
    ],
)
def test_a_folder_that_is_not_private_is_refused_with_what_to_do(store, put, reason):
    store.directory.mkdir(mode=0o700)
    put(store.directory / "scratch")
    with pytest.raises(ArchiveError, match=rf"Nothing is compiled in .*scratch: {reason}.*Remove it"):
        open_scratch(store)
    with pytest.raises(KernelBuildError, match=reason):
        KernelBuild(GEMV, store, background=False)


def test_beside_a_cache_that_others_may_write_to_a_random_private_folder_is_used(store, shared):
    store.directory.mkdir()
    store.directory.chmod(0o777)
    scratch = open_scratch(store)
    assert scratch.path.parent == shared
    assert stat.S_IMODE(scratch.path.stat().st_mode) == 0o700
    assert not list(store.directory.iterdir())


def test_a_compiler_inherits_no_place_that_others_share(store):
    scratch = open_scratch(store)
    environment = make_environment(scratch)
    for name in ("TMPDIR", "TEMP", "TMP"):
        assert Path(environment[name]).parent == scratch.path


@needs_compiler
def test_nothing_is_imported_from_the_folder_where_the_program_happens_to_run(store, tmp_path, monkeypatch):
    for name in ("ctypes", "json", "openipu"):
        (tmp_path / f"{name}.py").write_text("open('was_run', 'w')")
    monkeypatch.chdir(tmp_path)
    KernelBuild(GEMV, store, background=False).finish()
    assert not (tmp_path / "was_run").exists()


@needs_compiler
def test_a_compilation_leaves_its_entry_and_nothing_in_the_shared_folder(store, shared):
    KernelBuild(GEMV, store, background=False).finish()
    assert not list(shared.iterdir())
    assert not list((store.directory / "scratch").glob("build-*"))
    assert [entry.key for entry in store.list()] == [make_kernel_key(GEMV)]
