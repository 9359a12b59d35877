"""What lies in the cache and was not put there by the user's own openipu is refused, and never waited for."""

import os
import socket
import threading

import pytest

from openipu.store import Part, explain_openness, make_key, open_store, take_lock
from openipu.store import store as store_module
from openipu.store.entry import MANIFEST

KEY = make_key({"number": 1})
PATIENCE_SECONDS = 120  # a guard against hangs
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def store(tmp_path):
    store_module._warned.clear()
    store = open_store(tmp_path / "cache")
    store.write(KEY, {"step.so": Part(b"code", native=True)}, {}).close()
    return store


def put_dangling_link(path):
    path.symlink_to(path.parent / "nowhere")


def put_link(path):
    other = path.parent.parent / "elsewhere"
    other.write_bytes(b"code")
    path.symlink_to(other)


def put_socket(path):
    here = os.getcwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


STRANGERS = {"a pipe": os.mkfifo, "a dangling link": put_dangling_link, "a link": put_link, "a socket": put_socket}


def find_file(store, place):
    (found,) = (store.directory / KEY).glob(place)
    return found


def call_with_limit(function, *arguments):
    """Its result; a call that hangs is an error."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function(*arguments)), daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert results, "the call has neither returned nor failed"
    return results[0]


@pytest.mark.parametrize("place", ["step.*.so", MANIFEST, ".use"])
@pytest.mark.parametrize("kind", STRANGERS)
def test_what_is_no_plain_file_is_a_miss_and_the_entry_can_be_made_again(store, place, kind, caplog):
    file = find_file(store, place)
    file.unlink()
    STRANGERS[kind](file)
    assert call_with_limit(store.read, KEY) is None
    assert "executable cache" in caplog.text
    assert not (store.directory / "nowhere").exists()
    made = call_with_limit(store.write, KEY, {"step.so": Part(b"code", native=True)})
    assert made.read("step.so") == b"code"
    made.close()
    assert store.read(KEY).read("step.so") == b"code"


@pytest.mark.parametrize("kind", STRANGERS)
def test_a_sweep_of_the_cache_waits_for_nothing(store, kind):
    file = find_file(store, "step.*.so")
    file.unlink()
    STRANGERS[kind](file)
    (finding,) = call_with_limit(store.verify)
    assert "is not believed" in finding.reason
    assert call_with_limit(store.list) == ()


@needs_root
@pytest.mark.parametrize("place", ["step.*.so", MANIFEST])
def test_a_file_of_another_user_is_refused_though_its_content_is_right(store, place, caplog):
    os.chown(find_file(store, place), 12345, 12345)
    assert store.read(KEY) is None
    assert "belongs to user 12345, and its directory to user 0" in caplog.text
    assert not (store.directory / KEY).exists(), "it is made again"


def test_native_code_that_others_may_write_to_is_refused(store, caplog):
    find_file(store, "step.*.so").chmod(0o666)
    assert store.read(KEY) is None
    assert "others may write to it" in caplog.text


def test_an_entry_that_is_a_link_is_refused_and_what_it_points_to_is_left_alone(store, tmp_path, caplog):
    (store.directory / KEY).rename(tmp_path / KEY)
    (store.directory / KEY).symlink_to(tmp_path / KEY)
    assert store.read(KEY) is None
    assert not os.path.lexists(store.directory / KEY)
    assert (tmp_path / KEY / MANIFEST).exists()


def test_a_lock_does_not_make_files_behind_a_link(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "made")
    with pytest.raises(OSError, match="not a plain file"):
        take_lock(tmp_path / "lock")
    assert not (tmp_path / "made").exists()


def test_a_directory_is_private_if_it_is_the_users_alone(tmp_path):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    assert explain_openness(private) is None
    link = tmp_path / "link"
    link.symlink_to(private)
    assert explain_openness(link) == "it is a symbolic link"
    for mode in (0o750, 0o701, 0o777):
        private.chmod(mode)
        assert explain_openness(private) == f"it is open to others (mode {mode:o})"
    (tmp_path / "file").touch()
    assert explain_openness(tmp_path / "file") == "it is not a directory"
    assert "cannot be looked at" in explain_openness(tmp_path / "nothing")


@needs_root
def test_a_directory_of_another_user_is_not_private(tmp_path):
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", 12345, 12345)
    assert explain_openness(tmp_path / "theirs") == "it belongs to user 12345, and this is user 0"
