"""Whole jobs under poprun: the same weights as one process, one failure that ends all, and a second start."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("train_together.py")


def run_job(directory, *words, **variables):
    directory.mkdir(exist_ok=True)
    line = [sys.executable, "-m", "poprun", "--num-replicas", "8", *words, str(SCRIPT), str(directory)]
    return subprocess.run(
        line, env={**os.environ, **variables}, capture_output=True, text=True, timeout=900, check=False
    )


def read_weights(directory, instances):
    weights = [torch.load(directory / f"weights.{index}") for index in range(instances)]
    for other in weights[1:]:
        assert torch.equal(weights[0], other)  # to the bit
    return weights[0]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The weights of one instance with all 8 replicas, trained in this process."""
    import importlib.util

    import poptorch

    spec = importlib.util.spec_from_file_location("train_together", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    directory = tmp_path_factory.mktemp("alone")
    module.train(poptorch.Options().replicationFactor(8), directory)
    return read_weights(directory, 1)


def test_four_instances_train_to_the_weights_of_one(alone, tmp_path):
    cache = str(tmp_path / "cache")
    job = run_job(tmp_path / "job", "--num-instances", "4", "--executable-cache-path", cache)
    assert job.returncode == 0, job.stderr
    torch.testing.assert_close(read_weights(tmp_path / "job", 4), alone, rtol=0, atol=1e-5)
    assert sorted(line for line in job.stdout.splitlines() if "has trained" in line) == [
        f"[{index}] instance {index} has trained" for index in range(4)
    ]
    assert len(list((tmp_path / "job").glob("planned.*"))) == 1  # the others took it from the cache


@pytest.mark.slow
def test_a_killed_instance_ends_the_job_and_a_second_start_goes_on(alone, tmp_path):
    job = run_job(tmp_path / "job", "--num-instances", "2", KILL="1:3")
    assert job.returncode == 128 + 9
    assert "poprun: instance 1 (process" in job.stderr
    assert "was killed by SIGKILL. The other one was stopped." in job.stderr
    assert not list((tmp_path / "job").glob("weights.*"))
    again = run_job(tmp_path / "job", "--num-instances", "2")
    assert again.returncode == 0, again.stderr
    torch.testing.assert_close(read_weights(tmp_path / "job", 2), alone, rtol=0, atol=1e-5)


def test_a_frozen_instance_is_named_and_ends_the_job(tmp_path):
    job = run_job(tmp_path / "job", "--num-instances", "2", "--instance-timeout", "20", FREEZE="1:3")
    assert job.returncode == 128 + 9
    assert re.search(r"poprun: instance 1 \(process \d+\) has given no sign of life for 20 seconds", job.stderr)
    assert "instance 0 (process" not in job.stderr
    assert "The other one was stopped." in job.stderr
    assert not list((tmp_path / "job").glob("weights.*"))


def test_an_error_of_one_instance_is_shown_and_is_the_jobs(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text(
        "import popdist, time\n"
        "print('instance', popdist.getInstanceIndex(), 'of', popdist.getNumInstances(), flush=True)\n"
        "if popdist.getInstanceIndex() == 1:\n"
        "    raise ValueError('the data of this step is broken')\n"
        "time.sleep(3600)\n"
    )
    words = ("--num-instances", "2", "--num-replicas", "2", "--only-output-from-instance", "1")
    line = [sys.executable, "-m", "poprun", *words, str(script)]
    job = subprocess.run(line, capture_output=True, text=True, timeout=900, check=False)
    assert job.returncode == 1
    assert job.stdout == "[1] instance 1 of 2\n"
    assert "[1] ValueError: the data of this step is broken" in job.stderr
    assert "poprun: instance 1 (process" in job.stderr
    assert "ended with code 1. The other one was stopped." in job.stderr
    assert "[0]" not in job.stdout + job.stderr


@pytest.fixture
def two_hosts(tmp_path):
    """Two network namespaces joined by a cable, and a remote shell into them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the ip command")
    names = [f"openipu{os.getpid()}{end}" for end in "ab"]
    links = [f"oi{os.getpid() % 10**6}{end}" for end in "ab"]
    addresses = ["10.213.77.1", "10.213.77.2"]

    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True, text=True, check=False).returncode == 0

    try:
        made = all(ip("netns", "add", name) for name in names)
        made = made and ip("link", "add", links[0], "type", "veth", "peer", "name", links[1])
        for name, link, address in zip(names, links, addresses, strict=True):
            made = made and ip("link", "set", link, "netns", name)
            made = made and ip("-n", name, "addr", "add", f"{address}/24", "dev", link)
            made = made and ip("-n", name, "link", "set", "lo", "up") and ip("-n", name, "link", "set", link, "up")
        if not made:
            pytest.skip("this machine allows no network namespaces")
        shell = tmp_path / "enter"
        cases = "".join(f"{address}) space={name};; " for name, address in zip(names, addresses, strict=True))
        shell.write_text(f'#!/bin/sh\ncase $1 in {cases}esac\nexec ip netns exec $space sh -c "$2"\n')
        shell.chmod(0o755)
        yield ",".join(addresses), f"{shell} {{host}} {{command}}"
    finally:
        for name in names:
            ip("netns", "delete", name)


@pytest.mark.slow
def test_two_hosts_train_to_the_weights_of_one(alone, tmp_path, two_hosts):
    hosts, shell = two_hosts
    words = ("--host", hosts, "--remote-shell", shell, "--num-instances", "2", "--print-topology", "yes")
    job = run_job(tmp_path / "job", *words)
    assert job.returncode == 0, job.stderr
    assert f"| hosts     | {hosts.replace(',', ' | ')} |" in job.stdout
    torch.testing.assert_close(read_weights(tmp_path / "job", 2), alone, rtol=0, atol=1e-5)
