"""popdist's numbers, PopTorch's options made from them, and poprun's command line."""

import json
import shlex
import subprocess
import sys

import pytest

import popdist
import popdist.poptorch
from openipu.errors import OptionError
from poprun.hosts import parse_hosts, read_host_file
from poprun.launch import choose_program, describe_end
from poprun.main import main
from poprun.network import find_interface
from poprun.options import list_without_effect, parse_options
from poprun.remote import DEFAULT_SHELL, build_remote_line, parse_exports
from poprun.topology import draw_topology, make_topology


@pytest.fixture
def instance(monkeypatch):
    """Instance 3 of 4 on two hosts, with 2 of 8 replicas."""
    topology = make_topology(["a", "b"], 4, 8, 2)
    for name, value in topology.make_environment(3).items():
        monkeypatch.setenv(name, value)


def test_without_poprun_there_is_one_instance():
    assert not popdist.isPopdistEnvSet()
    assert (popdist.getInstanceIndex(), popdist.getNumInstances(), popdist.getNumTotalReplicas()) == (0, 1, 1)
    popdist.init()
    assert not popdist.isBackendInitialized()
    options = popdist.poptorch.Options(ipus_per_replica=2)
    assert (options.replication_factor, options.Distributed.processId, options.Distributed.numProcesses) == (1, 0, 1)


def test_an_instance_reads_what_poprun_tells_it(instance):
    assert popdist.isPopdistEnvSet()
    assert (popdist.getInstanceIndex(), popdist.getLocalInstanceIndex(), popdist.getNumInstances()) == (3, 1, 4)
    assert (popdist.getNumTotalReplicas(), popdist.getNumLocalReplicas(), popdist.getReplicaIndexOffset()) == (8, 2, 6)
    assert popdist.getNumIpusPerReplica() == 2
    assert popdist.getDeviceId() == 4  # on its host: behind the 2 replicas x 2 IPUs of instance 2
    with pytest.raises(RuntimeError, match="--ipus-per-replica 4"):
        popdist.checkNumIpusPerReplica(4)
    assert popdist.execute_on_instances({0, 3}, lambda a, b: a + b, 1, b=2) == 3
    assert popdist.execute_on_instances({0}, pytest.fail) is None


def test_options_are_those_of_the_instance(instance, monkeypatch, tmp_path):
    monkeypatch.setenv("POPDIST_EXECUTABLE_CACHE_PATH", str(tmp_path))
    options = popdist.poptorch.Options(ipus_per_replica=2)
    assert (options.replication_factor, options.Distributed.processId, options.Distributed.numProcesses) == (2, 3, 4)
    assert options._Popart.options["cachePath"] == str(tmp_path)
    assert options.clone().Distributed.processId == 3


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("replicationFactor", (2,)),
        ("useIpuId", (1,)),
        ("Distributed.disable", ()),
        ("Distributed.setEnvVarNames", ("A", "B")),
        ("Distributed.configureProcessId", (1, 2)),
    ],
)
def test_what_poprun_decides_cannot_be_set_again(call, arguments):
    target = popdist.poptorch.Options()
    for name in call.split("."):
        target = getattr(target, name)
    with pytest.raises(RuntimeError, match=rf"Cannot call `{call}` with popdist\.poptorch\.Options"):
        target(*arguments)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("n[0-2,5]", ["n0", "n1", "n2", "n5"]),
        ("n[08-10].lan,z", ["n08.lan", "n09.lan", "n10.lan", "z"]),
    ],
)
def test_hosts_are_written_as_lists_and_ranges(text, hosts):
    assert parse_hosts(text) == hosts


@pytest.mark.parametrize("text", ["n[2-1]", "n[a]", "a,,b", "n[0", "n[0-99999999]", "n[²]"])
def test_wrong_hosts_are_an_error(text):
    with pytest.raises(OptionError, match="--host"):
        parse_hosts(text)


def test_a_host_file_has_a_name_a_line(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("# ours\nnode0 slots=2\n\nnode1\n")
    assert read_host_file(path) == ["node0", "node1"]
    path.write_text("# none\n")
    with pytest.raises(OptionError, match="names no host"):
        read_host_file(path)


@pytest.mark.parametrize("name", ["-oProxyCommand=touch", "--help"])
def test_a_host_that_the_remote_shell_would_take_for_an_option_is_refused(name, tmp_path):
    path = tmp_path / "hosts"
    path.write_text(f"node0\n{name}\n")
    with pytest.raises(OptionError, match="is not a host"):
        read_host_file(path)
    with pytest.raises(OptionError, match="is not a host"):
        parse_hosts(f"node0,{name}")


@pytest.mark.parametrize(
    ("hosts", "instances", "replicas", "message"),
    [
        (["a"], 3, 4, "4 replicas cannot be divided evenly among 3 instances"),
        (["a", "b"], 3, 6, "3 instances cannot be divided evenly among 2 hosts"),
        (["a", "a"], 2, 2, "named twice"),
        (["a"], 0, 2, "--num-instances must be at least 1"),
    ],
)
def test_a_layout_must_divide_evenly(hosts, instances, replicas, message):
    with pytest.raises(OptionError, match=message):
        make_topology(hosts, instances, replicas, 1)


def test_the_topology_is_drawn_as_a_box():
    assert draw_topology(make_topology(["a", "b"], 4, 8, 2)).splitlines() == [
        "+-----------------------+",
        "| hosts     |  a  |  b  |",
        "| instances | 0-1 | 2-3 |",
        "| replicas  | 0-3 | 4-7 |",
        "| IPUs      |  8  |  8  |",
        "+-----------------------+",
    ]
    many = draw_topology(make_topology([f"node{number:02d}" for number in range(16)], 16, 16, 1))
    assert max(map(len, many.splitlines())) <= 80


def test_old_command_lines_are_accepted_and_say_what_has_no_effect():
    line = (
        "-vv --host=a,b --num-instances=4 --num-replicas 32 --numa-aware=yes --num-ilds=4 --vipu-server-host=h "
        "--update-partition=yes --print-topology=yes --vipu-partition=p '--mpi-local-args=-x PATH -x A=b' "
        "python3 train.py --host other"
    )
    options = parse_options(shlex.split(line))
    assert options.program == ["python3", "train.py", "--host", "other"]
    assert (options.verbose, options.num_instances, options.print_topology) == (2, 4, True)
    assert [text.split()[0] for text in list_without_effect(options)] == [
        "--num-ilds",
        "--vipu-server-host",
        "--update-partition",
        "--numa-aware",
    ]
    assert parse_exports(options.mpi_local_args)["A"] == "b"


def test_a_configuration_is_exported_and_imported(tmp_path):
    path = str(tmp_path / "job.json")
    parse_options(["--num-instances", "2", "--num-replicas", "4", "--export-config", path, "train.py"])
    options = parse_options(["--import-config", path, "--num-replicas", "8"])
    assert (options.num_instances, options.num_replicas, options.program) == (2, 8, ["train.py"])
    with pytest.raises(OptionError, match="--overwrite-config"):
        parse_options(["--export-config", path, "train.py"])
    (tmp_path / "job.json").write_text(json.dumps({"num_ipus": 3}))
    with pytest.raises(OptionError, match="num_ipus"):
        parse_options(["--import-config", path, "train.py"])


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"num_instances": "two"}, r"num_instances, is damaged: Expected `int`, got `str`"),
        ({"num_instances": 1e300}, "Expected `int`"),
        ({"program": "train.py"}, "Expected `array`, got `str`"),
        ({"program": [3]}, "Expected `str`"),
        ({"host": ["a"]}, "Expected `str`"),
        ([], "Expected `object`"),
    ],
)
def test_a_configuration_has_options_of_their_types(stored, message, tmp_path):
    path = tmp_path / "job.json"
    path.write_text(json.dumps(stored))
    with pytest.raises(OptionError, match=message):
        parse_options(["--import-config", str(path), "train.py"])


def test_wrong_usage_is_exit_code_2(capsys):
    assert main(["--num-instances", "3", "--num-replicas", "4", "train.py"]) == 2
    assert "poprun: 4 replicas cannot be divided" in capsys.readouterr().err
    assert main(["--only-output-from-instance", "1", "train.py"]) == 2
    with pytest.raises(SystemExit, match="2"):
        main([])


def test_a_python_file_is_run_by_this_python_and_anything_else_is_a_command():
    assert choose_program(["train.py", "-x"]) == (sys.executable, "train.py", "-x")
    assert choose_program(["echo", "hello"]) == ("echo", "hello")
    assert (describe_end(-9), describe_end(3)) == ("was killed by SIGKILL", "ended with code 3")


def test_a_remote_shell_gets_one_command_that_keeps_directory_and_variables(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POPTORCH_LOG_LEVEL", "a b")
    words = build_remote_line(DEFAULT_SHELL, "node1", ["echo", "x y"], {"EXTRA": "1"})
    assert words[:4] == ["ssh", "-o", "BatchMode=yes", "node1"]
    shown = subprocess.run(["sh", "-c", words[4]], capture_output=True, text=True, check=True).stdout
    assert shown == "x y\n"
    assert f"cd {tmp_path}" in words[4]
    assert "'POPTORCH_LOG_LEVEL=a b'" in words[4]
    assert "EXTRA=1" in words[4]


def test_the_interface_to_this_host_itself_is_the_loopback():
    assert find_interface("127.0.0.1") == "lo"
    assert find_interface("no.such.host.invalid") is None
