"""How files are saved: whole or not at all, by one module, and without leftovers of writers that were killed."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import openipu
from openipu.saving import PART_SUFFIX, PRIVATE, save_bytes, save_text, sweep_parts, write_aside

WRITER = """
import os, signal, sys
from pathlib import Path
from openipu.saving import write_aside
with write_aside(Path(sys.argv[1])) as part:
    part.write_text("half of i")
    print("writes", flush=True)
    if sys.argv[2] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


def start_writer(path, then):
    words = [sys.executable, "-c", WRITER, str(path), then]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "writes\n"
    return process


def list_parts(directory):
    return [path.name for path in directory.iterdir() if path.name.endswith(PART_SUFFIX)]


def test_what_a_killed_writer_left_is_removed_by_the_next_one_who_saves_there(tmp_path):
    save_text(tmp_path / "kept.txt", "old")
    start_writer(tmp_path / "kept.txt", "die").communicate()
    assert (tmp_path / "kept.txt").read_text() == "old"
    assert len(list_parts(tmp_path)) == 1
    save_text(tmp_path / "another.txt", "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["another.txt", "kept.txt"]


def test_what_a_live_writer_has_not_finished_stays_until_it_is_in_place(tmp_path):
    writer = start_writer(tmp_path / "slow.txt", "wait")
    assert sweep_parts(tmp_path) == 0
    save_text(tmp_path / "quick.txt", "new")
    assert len(list_parts(tmp_path)) == 1
    writer.communicate("")
    assert writer.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quick.txt", "slow.txt"]
    assert (tmp_path / "slow.txt").read_text() == "half of i"


def test_files_of_others_are_not_swept(tmp_path):
    names = [".notes.12345678.part", f"report{PART_SUFFIX}", ".profile.pop.abcdefgh"]
    for name in names:
        (tmp_path / name).write_text("mine")
    (tmp_path / f".link.01234567{PART_SUFFIX}").symlink_to(tmp_path / names[0])
    save_text(tmp_path / "new.txt", "new")
    assert sweep_parts(tmp_path) == 0
    assert all((tmp_path / name).read_text() == "mine" for name in names)


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_save_that_fails_changes_nothing_and_leaves_nothing(tmp_path, failure):
    save_text(tmp_path / "kept.txt", "old")

    def fail():
        with write_aside(tmp_path / "kept.txt") as part:
            part.write_text("new")
            raise failure

    with pytest.raises(failure):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]
    assert (tmp_path / "kept.txt").read_text() == "old"


def test_a_new_file_has_the_rights_that_the_umask_leaves_and_a_replaced_one_keeps_its_own(tmp_path):
    def read_mode(name):
        return stat.S_IMODE((tmp_path / name).stat().st_mode)

    before = os.umask(0o027)
    try:
        save_text(tmp_path / "shared", "new")
        save_bytes(tmp_path / "private", b"new", mode=PRIVATE)
        (tmp_path / "old").write_text("old")
        (tmp_path / "old").chmod(0o604)
        save_text(tmp_path / "old", "new")
    finally:
        os.umask(before)
    assert (read_mode("shared"), read_mode("private"), read_mode("old")) == (0o640, 0o600, 0o604)


def test_a_link_is_replaced_and_what_it_pointed_to_is_untouched(tmp_path):
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / "profile.pop").symlink_to(tmp_path / "elsewhere")
    save_text(tmp_path / "profile.pop", "new")
    assert (tmp_path / "elsewhere").read_text() == "precious"
    assert not (tmp_path / "profile.pop").is_symlink()


def test_devices_are_written_to_and_stay_devices(capfd):
    save_text(Path("/dev/null"), "gone")
    assert Path("/dev/null").is_char_device()
    save_text(Path("/dev/stdout"), "shown\n")
    assert capfd.readouterr().out == "shown\n"


def test_a_name_as_long_as_the_file_system_allows_can_be_saved(tmp_path):
    path = tmp_path / ("n" * 255)
    save_text(path, "new")
    assert path.read_text() == "new"


def test_no_other_module_moves_files_into_place_by_itself():
    package = Path(openipu.__file__).parent
    by_hand = re.compile(r"os\.replace\(|mkstemp\(|NamedTemporaryFile\([^)]*delete=False")
    found = [
        path.relative_to(package.parent).as_posix()
        for path in package.parent.rglob("*.py")
        if by_hand.search(path.read_text(encoding="utf-8"))
    ]
    assert found == ["openipu/saving.py"]
