"""What a pod is: its file, the fabric file, and which of them counts."""

import json
import os

import pytest

from openipu.errors import PodError
from openipu.machine import resolve_system
from openipu.pod import choose_pod_file, find_pod, list_ipus, read_fabric_file, read_pod_file, write_pod_file
from openipu.pod.description import describe_pod
from openipu.pod.links import find_rate, list_links


def write(path, text):
    path.write_text(text)
    return path


def test_a_pod_file_cuts_a_system_into_partitions_side_by_side(tmp_path):
    text = 'system = "pod16"\n[[partition]]\nname = "a"\nipus = 4\n[[partition]]\nname = "b"\nipus = 8\n'
    pod = read_pod_file(write(tmp_path / "lab.toml", text))
    assert (pod.name, pod.system.ipus) == ("lab", 16)
    assert [(part.name, part.first, part.ipus) for part in pod.partitions] == [("a", 0, 4), ("b", 4, 8)]


def test_a_written_pod_is_read_back_the_same(tmp_path):
    pod = describe_pod("lab", resolve_system("bow-pod16"), [("p 0", 4), ("p1", 2)])
    write_pod_file(pod, tmp_path / "pod.toml")
    again = read_pod_file(tmp_path / "pod.toml")
    assert (again.name, again.system, again.partitions) == (pod.name, pod.system, pod.partitions)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('system = "pod1"', "Unknown system 'pod1'"),
        ('name = "x"', "missing required field `system`"),
        ('system = "pod4"\nracks = 2', "unknown field `racks`"),
        ('system = "pod4"\n[[partition]]\nipus = 5', "has IPUs 0 to 4, and pod4 has 0 to 3"),
        (
            'system = "pod4"\n[[partition]]\nipus = 2\n[[partition]]\nfirst = 1\nipus = 2',
            "IPU 1 is in partition p0 and",
        ),
        ('system = "pod4"\n[[partition]]\nname = "a"', r"missing required field `ipus` - at `\$\.partition\[0\]`"),
        ("system = ", "not valid TOML"),
    ],
)
def test_a_wrong_pod_file_is_an_error_that_says_where(tmp_path, text, message):
    with pytest.raises(PodError, match=message):
        read_pod_file(write(tmp_path / "pod.toml", text))


@pytest.mark.parametrize("document", [{"devices": [{}] * 6}, [{}] * 6])
def test_a_fabric_file_is_a_partition_with_as_many_ipus_as_it_lists(tmp_path, document):
    path = write(tmp_path / "p1_gcd0_ipuof.conf", json.dumps(document))
    pod = read_fabric_file(path, resolve_system("m2000"))
    assert (pod.partitions[0].name, pod.partitions[0].ipus) == ("p1", 6)
    assert pod.system.ipus == 8  # two boards of four


def test_a_fabric_file_without_devices_is_an_error(tmp_path):
    with pytest.raises(PodError, match="lists no devices"):
        read_fabric_file(write(tmp_path / "x.conf", "{}"), resolve_system("m2000"))


def test_the_environment_chooses_the_pod(monkeypatch, tmp_path):
    assert find_pod().open
    assert find_pod().description.system.name == "bow-2000"
    write_pod_file(describe_pod("mine", resolve_system("pod16"), [("a", 4), ("b", 8)]), choose_pod_file())
    assert (find_pod().description.name, find_pod().partition.name) == ("mine", "a")
    monkeypatch.setenv("IPUOF_VIPU_API_PARTITION_ID", "b")
    assert find_pod().partition.ipus == 8
    fabric = write(tmp_path / "a_ipuof.conf", '{"devices": [1, 2]}')
    monkeypatch.setenv("IPUOF_CONFIG_PATH", str(fabric))
    assert find_pod().partition.ipus == 4  # partition a of the pod that was created
    monkeypatch.setenv("OPENIPU_POD", "c600")
    monkeypatch.delenv("IPUOF_VIPU_API_PARTITION_ID")
    assert find_pod().partition.ipus == 1
    monkeypatch.setenv("OPENIPU_POD", "open")
    assert find_pod().open


def test_an_unknown_partition_is_an_error_that_names_the_others():
    write_pod_file(describe_pod("mine", resolve_system("pod16"), [("a", 4), ("b", 8)]), choose_pod_file())
    with pytest.raises(PodError, match=r"no partition 'c'. Choose one of: a, b"):
        find_pod("c")


def test_ipus_of_a_board_count_down_and_those_of_a_partition_from_zero():
    write_pod_file(describe_pod("mine", resolve_system("pod16"), [("a", 4), ("b", 8)]), choose_pod_file())
    ipus = list_ipus(find_pod("b"), [])
    assert [(ipu.id, ipu.number, ipu.board, ipu.index) for ipu in ipus[:5]] == [
        (0, 4, 1, 3),
        (1, 5, 1, 2),
        (2, 6, 1, 1),
        (3, 7, 1, 0),
        (4, 8, 2, 3),
    ]


def test_links_form_a_ladder_and_racks_are_joined_by_gateways():
    four = [(link.first, link.second, link.kind) for link in list_links(resolve_system("pod4"))]
    assert four == [(0, 1, "rung"), (2, 3, "rung"), (0, 2, "rail"), (1, 3, "rail")]
    rack = list_links(resolve_system("pod64"))
    assert len(rack) == 32 + 62 + 2  # rungs, rails, and the two that close the torus
    two = resolve_system("pod128")
    assert sum(link.kind == "gateway" for link in list_links(two)) == 16  # one a board
    assert find_rate(two, 0, 63) == two.ipu_link_bytes_per_second
    assert find_rate(two, 0, 64) == two.gateway_link_bytes_per_second
    assert list_links(resolve_system("c600")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('system = "pod4"\npartition = "a"', "Expected `array`, got `str`"),
        ('system = "pod4"\n[[partition]]\nipus = "two"', "Expected `int`, got `str`"),
        ('system = "pod4"\n[[partition]]\nipus = 1000000000000', "Expected `int` <= 65536"),
        ("system = 3", "Expected `str`, got `int`"),
        ('system = "pod4"\nname = "' + "x" * 500 + '"', "Expected `str` of length <= 100"),
        ("a = " + "[" * 9000, "nested too deeply"),
    ],
)
def test_a_pod_file_has_values_of_their_types(text, message, tmp_path):
    with pytest.raises(PodError, match=rf"The pod file .*{message}.*A pod file has name, system"):
        read_pod_file(write(tmp_path / "pod.toml", text))


def test_a_fifo_in_place_of_a_pod_file_does_not_block(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pod.toml")
    monkeypatch.setenv("OPENIPU_POD", str(tmp_path / "pod.toml"))
    with pytest.raises(PodError, match="is a FIFO, and no file"):
        find_pod()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 9999, "nested too deeply"),
        ("{}", "lists no devices"),
        ("[" + "0," * 70000 + "0]", "lists 70,001 devices"),
    ],
)
def test_a_fabric_file_is_read_within_limits(content, message, tmp_path):
    with pytest.raises(PodError, match=rf"which IPUOF_CONFIG_PATH names, .*{message}"):
        read_fabric_file(write(tmp_path / "a.conf", content), resolve_system("m2000"))
