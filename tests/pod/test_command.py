"""`openipu pod`: set up, shown, removed; and refused where it would pull IPUs from under a program."""

import json
import subprocess
import sys

import pytest

from openipu.cli import main
from openipu.pod import choose_pod_file, find_pod, read_fabric_file


@pytest.fixture
def call(capsys):
    def run(*words):
        code = main(["pod", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_a_pod_is_created_shown_and_removed(call, tmp_path):
    assert json.loads(call("show", "--json")[1])["open"] is True
    code, out, _ = call("create", "bow-pod16", "--name", "lab", "--partition", "a:4", "--partition", "b:8")
    assert (code, "Pod lab is set up" in out) == (0, True)
    document = json.loads(call("show", "--json")[1])
    assert (document["name"], document["system"], document["open"]) == ("lab", "bow-pod16", False)
    assert [(part["name"], part["first"], part["ipus"]) for part in document["partitions"]] == [
        ("a", 0, 4),
        ("b", 4, 8),
    ]
    assert call("remove")[0] == 0
    assert find_pod().open
    code, _, err = call("remove")
    assert (code, "nothing to remove" in err) == (2, True)


def test_a_system_file_is_remembered_by_its_path(call, tmp_path, monkeypatch):
    (tmp_path / "big.toml").write_text('[system]\nbase = "bow-2000"\nipus = 8\n')
    monkeypatch.chdir(tmp_path)
    assert call("create", "big.toml")[0] == 0
    monkeypatch.chdir("/")
    assert find_pod().partition.ipus == 8


def test_fabric_files_lead_to_their_partition(call, tmp_path, monkeypatch):
    words = ("create", "bow-pod16", "--partition", "a:4", "--partition", "b:8", "--fabric-files", str(tmp_path))
    assert call(*words)[0] == 0
    fabric = tmp_path / "b_gcd0_ipuof.conf"
    assert read_fabric_file(fabric, find_pod().description.system).partitions[0].ipus == 8
    monkeypatch.setenv("IPUOF_CONFIG_PATH", str(fabric))
    assert (find_pod().partition.name, find_pod().partition.first) == ("b", 4)


def test_a_pod_in_use_is_neither_replaced_nor_removed(call):
    call("create", "bow-2000")
    lease = find_pod().attach(1)
    for words in (("create", "bow-pod16"), ("remove",)):
        code, _, err = call(*words)
        assert (code, "is in use by process" in err) == (2, True)
    lease.release()
    assert call("create", "bow-pod16")[0] == 0


def test_wrong_partitions_are_refused_and_nothing_is_written(call):
    for wrong in ("a", "a:x", ":4", "a:17"):
        assert call("create", "bow-pod16", "--partition", wrong)[0] == 2
    assert not choose_pod_file().exists()


def test_a_creation_that_fails_half_way_leaves_the_pod_as_it_was(call, tmp_path):
    assert call("create", "bow-2000")[0] == 0
    before = choose_pod_file().read_bytes()
    (tmp_path / "file").write_text("no directory")
    code, _, err = call("create", "bow-pod16", "--fabric-files", str(tmp_path / "file"))
    assert (code, "Cannot set up the pod" in err) == (2, True)
    assert choose_pod_file().read_bytes() == before
    assert find_pod().description.name == "bow-2000"


def test_a_pod_that_cannot_be_written_says_what_to_do(call, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("OPENIPU_STATE_DIR", str(tmp_path / "file"))
    code, _, err = call("create", "bow-2000")
    assert (code, "OPENIPU_STATE_DIR" in err, "Traceback" in err) == (2, True, False)


def test_of_many_who_create_and_remove_at_once_each_leaves_a_whole_pod(state):
    script = (
        "import sys\nfrom openipu.cli import main\n"
        "for _ in range(5):\n    main(['pod', 'create', sys.argv[1], '--partition', 'a:2'])\n"
        "    main(['pod', 'remove'])\nmain(['pod', 'create', sys.argv[1], '--partition', 'a:2'])\n"
    )
    systems = ("bow-2000", "bow-pod16", "pod16")
    many = [subprocess.Popen([sys.executable, "-c", script, name], stderr=subprocess.PIPE) for name in systems]
    errors = b"".join(process.communicate()[1] for process in many)
    assert b"Traceback" not in errors
    assert find_pod().description.name in systems
    assert sorted(path.name for path in state.iterdir() if path.is_file()) == ["pod.lock", "pod.toml"]
