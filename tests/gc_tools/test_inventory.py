"""gc-info, gc-inventory, gc-monitor, gc-links, gc-reset and gcipuinfo: one pod, one answer."""

import os

import pytest

import gcipuinfo
import openipu
from openipu.gc_tools.monitor import draw_view
from openipu.gc_tools.tool import look
from openipu.machine import resolve_system
from openipu.pod import choose_pod_file, find_pod, write_pod_file
from openipu.pod.description import describe_pod


@pytest.fixture
def attached(monkeypatch):
    """This process holds IPUs 0 and 1 of four."""
    monkeypatch.setenv("OPENIPU_POD", "bow-2000")
    lease = find_pod().attach(2)
    yield
    lease.release()


@pytest.mark.parametrize("system", ["c600", "bow-2000", "pod16"])
def test_all_tools_agree_on_the_inventory(monkeypatch, call, call_json, system):
    monkeypatch.setenv("OPENIPU_POD", system)
    count = resolve_system(system).ipus
    assert call("info", "--ipu-count")[1] == f"{count}\n"
    (partition,) = call_json("info", "-l")[1]["partitions"]
    assert [row["id"] for row in partition["devices"] if row["target"] == "IPUModel"] == list(map(str, range(count)))
    devices = call_json("inventory")[1]["devices"]
    assert devices == call_json("info", "--device-info")[1]["devices"] == gcipuinfo.gcipuinfo().getDevices()
    assert devices == call_json("monitor")[1]["partitions"][0]["devices"]
    assert len(devices) == count
    assert all(isinstance(value, str) for device in devices for value in device.values())


def test_groups_are_aligned_powers_of_two_numbered_after_the_single_devices(call_json):
    (partition,) = call_json("info", "-l")[1]["partitions"]
    groups = {row["id"]: row["ipus"] for row in partition["devices"] if row["target"] == "Multi IPU"}
    assert groups == {"4": ["0", "1"], "5": ["2", "3"], "6": ["0", "1", "2", "3"]}


def test_the_monitor_shows_the_processes_that_are_attached(attached, call, call_json):
    (partition,) = call_json("monitor")[1]["partitions"]
    (process,) = partition["processes"]
    assert (process["pid"], process["ipus"]) == (str(os.getpid()), ["0", "1"])
    out = call("monitor", "--no-card-info")[1]
    assert str(os.getpid()) in out
    assert "Routing" not in out


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_monitor_has_a_head_of_two_cells_and_tables_of_one_width(attached, width):
    lines = draw_view(look(), width, cards=True)
    head = [cell.strip() for cell in lines[1].strip("|").split("|")]
    assert len(head) == 2
    assert head[0] == "gc-monitor"
    assert head[1] == "Partition: bow-2000 [active] has 4 reconfigurable IPUs"
    assert len({len(line) for line in lines}) == 1


def test_the_monitor_has_the_form_that_operators_know():
    """Frames, head, headings and widths of the published listing, with what is known of virtual IPUs in its cells."""
    write_pod_file(describe_pod("rack", resolve_system("m2000"), [("ipuof", 4)]), choose_pod_file())
    drawn = "\n".join(draw_view(look(), 120, cards=True))
    server = f"openipu {openipu.__version__}".center(14)
    assert (
        drawn
        == f"""\
+---------------+--------------------------------------------------------------------------------+
|  gc-monitor   |              Partition: ipuof [active] has 4 reconfigurable IPUs               |
+-------------+--------------------+--------+--------------+----------+------+----+------+-------+
|    IPU-M    |       Serial       |IPU-M SW|Server version|  ICU FW  | Type | ID | IPU# |Routing|
+-------------+--------------------+--------+--------------+----------+------+----+------+-------+
|    ipum0    |    virtual.0000    |  N/A   |{server}|   N/A    |M2000 | 0  |  3   |  DNC  |
|    ipum0    |    virtual.0000    |  N/A   |{server}|   N/A    |M2000 | 1  |  2   |  DNC  |
|    ipum0    |    virtual.0000    |  N/A   |{server}|   N/A    |M2000 | 2  |  1   |  DNC  |
|    ipum0    |    virtual.0000    |  N/A   |{server}|   N/A    |M2000 | 3  |  0   |  DNC  |
+-------------+--------------------+--------+--------------+----------+------+----+------+-------+
+--------------------------------------------------------------------------------------------------+
|                             No attached processes in partition ipuof                             |
+--------------------------------------------------------------------------------------------------+"""
    )


def test_the_monitor_says_when_nobody_is_attached(call):
    assert "No attached processes in partition default" in call("monitor")[1]


@pytest.mark.parametrize("width", [60, 80, 98, 200])
def test_the_monitors_tables_fit_the_terminal(attached, width):
    lines = draw_view(look(), width, cards=True)
    assert max(map(len, lines)) <= width
    assert any(" ID " in line and "Routing" in line for line in lines)
    assert any("PID" in line and "Command" in line for line in lines)


def test_all_partitions_are_shown_on_demand(call_json):
    write_pod_file(describe_pod("mine", resolve_system("pod16"), [("a", 4), ("b", 8)]), choose_pod_file())
    assert [part["name"] for part in call_json("monitor")[1]["partitions"]] == ["a"]
    assert [part["name"] for part in call_json("monitor", "--all-partitions")[1]["partitions"]] == ["a", "b"]
    assert len(gcipuinfo.gcipuinfo(gcipuinfo.DiscoverAllPartitionIPUs).getDevices()) == 12
    assert len(call_json("inventory", "--partition", "b")[1]["devices"]) == 8


def test_what_only_a_sensor_could_tell_is_not_made_up(call_json):
    device = call_json("inventory", "-d", "0")[1]["devices"][0]
    for name in ("ipu power", "average die temp", "average board temp", "ipu utilisation"):
        assert device[name] == "N/A"
    assert (device["target"], device["clock"]) == ("IPUModel", "1850MHz")


def test_links_are_those_of_the_partition(call_json, monkeypatch):
    links = call_json("links")[1]["links"]
    assert [(link["device0"], link["device1"]) for link in links] == [("0", "1"), ("2", "3"), ("0", "2"), ("1", "3")]
    assert [link["device1"] for link in call_json("links", "-d", "0")[1]["links"]] == ["1", "2"]
    monkeypatch.setenv("OPENIPU_POD", "c600")
    assert call_json("links")[1]["links"] == []


def test_reset_refuses_a_device_that_is_in_use(attached, call):
    code, out, err = call("reset")
    assert code == 1
    assert f"device 0 is in use by process {os.getpid()}" in err
    assert "Device 2: reset" in out
    assert call("reset", "-d", "3")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("info", "--device-info", "-d", "4"), "There is no device 4 in partition default: it has 0 to 3"),
        (("info", "-l", "--partition", "p9"), "has no partition 'p9'"),
        (("info", "--tile-status", "0"), "not modelled"),
        (("flops", "-p", "FP8"), "no rate for FP8"),
        (("memorytest", "--tiles", "0"), "1 to 1472 tiles"),
        (("info",), "required"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_a_message(call, words, message):
    code, _, err = call(*words)
    assert code == 2
    assert message in err


def test_a_monitor_client_sees_its_own_devices_and_numbers_without_units(attached):
    """What published monitors do: devices of one pid, units cut off, the rest left out."""
    info = gcipuinfo.gcipuinfo()
    info.setUpdateMode(True)
    own = [dict(device) for device in info.getDevices() if device.get("user process id") == str(os.getpid())]
    assert [device["id"] for device in own] == ["0", "1"]
    assert int(own[0]["clock"][:-3]) == 1850
    assert info.getNamedAttributeForAll(gcipuinfo.IpuPower) == ["N/A"] * 4
    assert info.getNamedAttributeForDevice(0, gcipuinfo.UserProcessId) == str(os.getpid())
    with pytest.raises(IndexError, match="no device 7"):
        info.getNamedAttributeForDevice(7, gcipuinfo.Clock)


def test_without_updates_what_was_read_holds_until_it_is_read_again(monkeypatch):
    monkeypatch.setenv("OPENIPU_POD", "bow-2000")
    info = gcipuinfo.gcipuinfo()
    assert "user process id" not in info.getDevices()[0]
    lease = find_pod().attach(1)
    assert "user process id" not in info.getDevices()[0]
    info.updateData()
    assert info.getDevices()[0]["user process id"] == str(os.getpid())
    lease.release()


def test_the_docker_command_mounts_the_pods_state(monkeypatch, tmp_path, call):
    fabric = tmp_path / "p0_ipuof.conf"
    fabric.write_text('{"devices": [1, 2]}')
    monkeypatch.setenv("IPUOF_CONFIG_PATH", str(fabric))
    code, out, _ = call("docker", "--echo", "--", "-it", "image", "gc-info", "-l")
    assert code == 0
    assert out.startswith("docker run ")
    assert out.endswith("-it image gc-info -l\n")
    assert f"-v {tmp_path}/state:/run/openipu -v {fabric}:/etc/ipuof.conf:ro" in out
    assert "-e IPUOF_CONFIG_PATH=/etc/ipuof.conf" in out
    assert call("docker", "--echo")[0] == 2
