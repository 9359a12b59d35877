"""The store of compiled programs: entries, checksums, limits, and whose native code is loaded."""

import json
import logging
import os
import stat
import time

import pytest

from openipu.errors import ArchiveError, OptionError
from openipu.store import Part, choose_directory, choose_limit_bytes, explain_exposure, make_key, open_store, parse_size
from openipu.store import store as store_module
from openipu.store.entry import MANIFEST, read_manifest, seal_manifest


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / "cache")


@pytest.fixture(autouse=True)
def forget_warnings():
    store_module._warned.clear()


def key_of(number):
    return make_key({"number": number})


def fill(store, number, size=1000, used=None):
    """An entry that nobody uses, used last at a time."""
    store.write(key_of(number), {"content": bytes([number]) * size}, {"number": number}).close()
    if used is not None:
        os.utime(store.directory / key_of(number) / MANIFEST, (used, used))


def numbers_in(store):
    return sorted(entry.description["number"] for entry in store.list())


def test_what_was_written_is_read_back(store, tmp_path):
    file = tmp_path / "a file"
    file.write_bytes(b"from a file")
    written = store.write(key_of(1), {"plan.json": b"{}", "copy.so": Part(file)}, {"program": "training"})
    found = store.read(key_of(1))
    for entry in (written, found):
        assert entry.key == key_of(1)
        assert entry.description == {"program": "training"}
        assert set(entry.names) == {"plan.json", "copy.so"}
        assert "plan.json" in entry
        assert entry.read("plan.json") == b"{}"
        assert entry.find("copy.so").read_bytes() == b"from a file"
        assert entry.find("copy.so").suffix == ".so"


def test_a_key_that_was_never_written_is_not_there_and_leaves_nothing(store):
    assert store.read(key_of(1)) is None
    assert not store.directory.exists()
    assert store.list() == ()
    assert store.size() == 0
    assert store.prune(0).entries == 0


def test_a_store_shows_one_directory_for_each_key_and_nothing_else(store):
    for number in (1, 2, 2):
        fill(store, number)
    with store.hold(key_of(1)):
        pass
    assert {path.name for path in store.directory.iterdir()} == {key_of(1), key_of(2)}


def test_keys_do_not_depend_on_the_order_of_facts():
    assert make_key({"a": 1, "b": [True, None]}) == make_key({"b": [True, None], "a": 1})
    assert make_key({"a": 1}) != make_key({"a": "1"})


def test_parts_are_added_to_an_entry_and_replaced_by_name(store):
    store.write(key_of(1), {"a": b"1", "b": b"2"}, {"program": "x"})
    entry = store.write(key_of(1), {"b": b"3", "c": b"4"}, {"kind": "kernels"})
    assert {name: entry.read(name) for name in entry.names} == {"a": b"1", "b": b"3", "c": b"4"}
    assert store.read(key_of(1)).description == {"program": "x", "kind": "kernels"}


def test_a_reader_keeps_what_it_opened_while_the_entry_is_replaced(store):
    fill(store, 1)
    reader = store.read(key_of(1))
    store.write(key_of(1), {"content": b"new"})
    store.prune(limit_bytes=0)
    assert reader.read("content") == b"\1" * 1000
    reader.close()
    store.prune()
    assert len(list((store.directory / key_of(1)).glob("content.*"))) == 1  # the old part went with its last reader
    assert store.read(key_of(1)).read("content") == b"new"


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_one_flipped_bit_of_a_part_is_noticed_once_and_the_entry_is_made_again(store, place, caplog):
    fill(store, 1)
    (file,) = (store.directory / key_of(1)).glob("content.*")
    content = bytearray(file.read_bytes())
    content[{"first": 0, "middle": 500, "last": -1}[place]] ^= 4
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING, logger="openipu"):
        assert store.read(key_of(1)) is None
        assert store.read(key_of(1)) is None
    assert caplog.text.count("damaged entry") == 1
    assert not (store.directory / key_of(1)).exists()
    entry, made = store.obtain(key_of(1), lambda: {"content": b"again"})
    assert made
    assert entry.read("content") == b"again"


def test_every_changed_byte_of_a_manifest_is_noticed(store):
    fill(store, 1, size=3)
    directory = store.directory / key_of(1)
    original = (directory / MANIFEST).read_bytes()
    for place in range(len(original)):
        changed = bytearray(original)
        changed[place] ^= 1
        (directory / MANIFEST).write_bytes(changed)
        with pytest.raises(ArchiveError, match=r"manifest|format"):
            read_manifest(directory)
    (directory / MANIFEST).write_bytes(original)
    assert store.read(key_of(1)).read("content") == b"\1\1\1"


@pytest.mark.parametrize("damage", ["missing", "short", "link"])
def test_a_part_that_is_missing_short_or_a_link_is_noticed(store, damage, tmp_path):
    fill(store, 1)
    (file,) = (store.directory / key_of(1)).glob("content.*")
    content = file.read_bytes()
    file.unlink()
    if damage == "short":
        file.write_bytes(content[:-1])
    if damage == "link":
        (tmp_path / "elsewhere").write_bytes(content)
        file.symlink_to(tmp_path / "elsewhere")
    assert [finding.key for finding in store.verify()] == [key_of(1)]
    assert store.read(key_of(1)) is None


def test_a_manifest_cannot_name_files_outside_its_directory(store, tmp_path):
    fill(store, 1)
    path = store.directory / key_of(1) / MANIFEST
    body = json.loads(path.read_bytes().split(b"\n")[1])
    body["parts"]["content"]["file"] = "../../secret"
    path.write_bytes(seal_manifest(body))
    (finding,) = store.verify()
    assert "'../../secret'" in finding.reason


def test_an_entry_that_another_key_was_given_is_not_believed(store):
    fill(store, 1)
    (store.directory / key_of(1)).rename(store.directory / key_of(2))
    assert store.read(key_of(2)) is None


@pytest.mark.parametrize("name", ["", "../a", ".use", "a/b", "manifest", "a.openipu-part", "a b"])
def test_names_of_parts_are_plain_file_names(store, name):
    with pytest.raises(ArchiveError, match="cannot be called"):
        store.write(key_of(1), {name: b""})


@pytest.mark.parametrize("key", ["", "..", "A" * 64, "0" * 63])
def test_keys_are_digests(store, key):
    with pytest.raises(ArchiveError, match="64 hexadecimal digits"):
        store.read(key)


def test_the_least_recently_used_entries_go_first(store):
    now = time.time()
    for number, age in ((1, 30), (2, 40), (3, 10), (4, 20)):
        fill(store, number, used=now - age)
    store.read(key_of(2)).close()  # now the youngest
    removal = store.prune(limit_bytes=store.size() - 1500)
    assert removal.entries == 2  # one entry is 1,000 bytes and its manifest
    assert numbers_in(store) == [2, 3]
    assert removal.size_bytes > 2000


def test_a_store_stays_within_its_limit_by_itself(tmp_path):
    store = open_store(tmp_path, limit_bytes=5000)
    for number in range(20):
        fill(store, number, used=time.time() - 100 + number)
        assert store.size() <= 5000
    assert numbers_in(store) == [17, 18, 19]


def test_an_entry_larger_than_the_limit_lives_as_long_as_it_is_used(tmp_path):
    store = open_store(tmp_path, limit_bytes=500)
    entry = store.write(key_of(1), {"content": bytes(1000)}, {"number": 1})
    assert numbers_in(store) == [1]
    entry.close()
    fill(store, 2, size=1)
    assert numbers_in(store) == [2]  # it was in use while room was made


def test_entries_that_were_not_used_for_long_are_pruned_by_age(store):
    now = time.time()
    fill(store, 1, used=now - 1000)
    fill(store, 2, used=now - 10)
    assert store.prune(older_than_seconds=100).entries == 1
    assert numbers_in(store) == [2]


def test_an_entry_in_use_is_never_removed(store):
    fill(store, 1)
    entry = store.read(key_of(1))
    removal = store.clear()
    assert (removal.entries, removal.kept_in_use) == (0, 1)
    assert store.list()[0].in_use
    assert not store.remove(key_of(1))
    del entry  # forgotten: as good as closed
    assert not store.list()[0].in_use
    assert store.clear().entries == 1


def test_an_entry_that_is_being_made_is_never_removed(store):
    with store.hold(key_of(1)) as mine:
        assert mine
        assert store.clear().entries == 0
        with store.hold(key_of(1), wait=False) as second:
            assert not second
        fill(store, 1)
        assert store.clear().kept_in_use == 1
    assert numbers_in(store) == [1]


def test_a_compilation_that_fails_leaves_nothing(store):
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.obtain(key_of(1), fail)
    assert list(store.directory.iterdir()) == []


def test_a_new_store_is_private(store):
    fill(store, 1)
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((store.directory / key_of(1)).stat().st_mode) == 0o700
    assert store.exposure is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_native_code_is_not_kept_where_others_may_write(store, mode, caplog):
    store.directory.mkdir()
    store.directory.chmod(mode)
    with caplog.at_level(logging.WARNING, logger="openipu"):
        entry = store.write(key_of(1), {"plan.json": b"{}", "step.pt2": Part(b"code", native=True)})
    assert entry.names == ("plan.json",)
    assert "others may write to" in caplog.text
    assert not list((store.directory / key_of(1)).glob("step*"))


def test_native_code_is_not_loaded_where_others_may_have_written(store, caplog):
    store.write(key_of(1), {"plan.json": b"{}", "step.pt2": Part(b"code", native=True)})
    assert store.read(key_of(1)).read("step.pt2") == b"code"
    for exposed in (store.directory / key_of(1), store.directory):
        exposed.chmod(0o720)
        with caplog.at_level(logging.WARNING, logger="openipu"):
            entry = store.read(key_of(1))
        assert entry.names == ("plan.json",)
        with pytest.raises(ArchiveError, match="others may write to"):
            entry.find("step.pt2")
        exposed.chmod(0o700)
    assert "Native code is not loaded" in caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_native_code_of_another_user_is_not_loaded(store):
    store.write(key_of(1), {"step.pt2": Part(b"code", native=True)})
    os.chown(store.directory, 12345, 12345)
    assert "belongs to user 12345" in store.exposure
    assert store.read(key_of(1)).names == ()
    os.chown(store.directory, 0, 0)
    os.chown(store.directory.parent, 12345, 12345)  # who could put another directory in its place
    assert "above it belongs to user 12345" in store.exposure


def test_a_directory_that_anybody_may_replace_is_exposed(tmp_path):
    shared = tmp_path / "shared"
    (shared / "cache").mkdir(parents=True, mode=0o700)
    shared.chmod(0o777)
    assert "anybody may replace" in explain_exposure(shared / "cache")
    shared.chmod(0o1777)  # sticky, as /tmp is
    assert explain_exposure(shared / "cache") is None


def test_a_directory_that_cannot_be_made_costs_one_warning_and_no_run(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    store = open_store(tmp_path / "file" / "cache")
    with caplog.at_level(logging.WARNING, logger="openipu"):
        assert store.write(key_of(1), {"a": b""}) is None
        assert store.write(key_of(1), {"a": b""}) is None
        entry, made = store.obtain(key_of(1), lambda: {"a": b""})
    assert entry is None
    assert made
    assert caplog.text.count("cannot be written") == 1


def test_a_store_lies_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("OPENIPU_CACHE_DIR", raising=False)
    assert choose_directory() == tmp_path / "home" / ".cache" / "openipu"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, as its standard says
    assert choose_directory() == tmp_path / "home" / ".cache" / "openipu"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert choose_directory() == tmp_path / "xdg" / "openipu"
    monkeypatch.setenv("OPENIPU_CACHE_DIR", "~/mine")
    assert choose_directory() == tmp_path / "home" / "mine"
    assert choose_directory(tmp_path) == tmp_path


def test_the_limit_is_a_size(monkeypatch):
    monkeypatch.delenv("OPENIPU_CACHE_LIMIT", raising=False)
    assert choose_limit_bytes() == 4_000_000_000
    for text, expected in (("0", 0), ("12", 12), ("1.5 GB", 1_500_000_000), ("2MiB", 2 * 2**20), ("3kb", 3000)):
        assert parse_size(text) == expected
        monkeypatch.setenv("OPENIPU_CACHE_LIMIT", text)
        assert choose_limit_bytes() == expected
    monkeypatch.setenv("OPENIPU_CACHE_LIMIT", "none")
    assert choose_limit_bytes() is None
    monkeypatch.setenv("OPENIPU_CACHE_LIMIT", "much")
    with pytest.raises(OptionError, match="OPENIPU_CACHE_LIMIT is 'much'"):
        choose_limit_bytes()


def test_a_store_that_cannot_be_read_costs_one_warning_and_no_run(store, caplog, monkeypatch):
    fill(store, 1)

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(store_module, "keep_entry", refuse)
    with caplog.at_level(logging.WARNING, logger="openipu"):
        assert store.read(key_of(1)) is None
        assert store.read(key_of(1)) is None
        with store.hold(key_of(1)) as free:
            assert free
    assert caplog.text.count("cannot be read") == 1
