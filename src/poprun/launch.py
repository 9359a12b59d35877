"""The instances of one host, by torchrun's elastic launcher.

In: a job's shape, the program, where to meet the other hosts. Out: the exit code. When an instance fails the others are
stopped, and the message says which one it was.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from poprun.network import find_interface
from poprun.topology import RUN_ID, Topology
from poprun.watch import watch_instances

STOP_SECONDS = 8  # for an instance that is told to stop, before it is killed


@dataclass(frozen=True, slots=True)
class Launch:
    """What one host's launcher has to know."""

    topology: Topology
    program: tuple[str, ...]
    host: int = 0  # the number of this host
    meeting_point: str = ""  # host:port of the first host; empty on a single one
    only_output_from: int | None = None
    max_restarts: int = 0
    tag_output: bool = True
    instance_timeout_seconds: float = 0.0  # without a sign of life; 0: an instance may freeze for ever
    verbose: bool = False


def launch_instances(launch: Launch) -> int:
    """Run all instances of this host to their end."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    if not launch.verbose:
        _quieten()
    topology = launch.topology
    own = topology.instances_per_host
    _share_cores(own)
    os.environ.setdefault("PYTHONUNBUFFERED", "1")  # output passes through files: lines shall be seen when written
    directory = tempfile.mkdtemp(prefix="poprun-")
    several = len(topology.hosts) > 1
    if several:
        _choose_interface(launch)
    config = LaunchConfig(
        min_nodes=len(topology.hosts),
        max_nodes=len(topology.hosts),
        nproc_per_node=own,
        run_id=RUN_ID,
        role="instance",
        rdzv_backend="static" if several else "c10d",
        rdzv_endpoint=launch.meeting_point if several else "localhost:0",
        rdzv_configs={"rank": launch.host} if several else {},
        local_addr=topology.hosts[launch.host] if several else "localhost",
        max_restarts=launch.max_restarts,
        monitor_interval=0.1,
        shutdown_timeout=STOP_SECONDS,
        logs_specs=DefaultLogsSpecs(log_dir=directory, tee=Std.ALL, local_ranks_filter=_filter_output(launch, own)),
        log_line_prefix_template="[${rank}] " if launch.tag_output else " ",
    )
    shape = {
        "hosts": topology.hosts,
        "instances": topology.instances,
        "replicas": topology.replicas,
        "ipus_per_replica": topology.ipus_per_replica,
    }
    words = ["-m", "poprun.instance", json.dumps(shape), *launch.program]
    try:
        with watch_instances(Path(directory), launch.instance_timeout_seconds):
            elastic_launch(config, sys.executable)(*words)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        code = int(failure.exitcode)
        host = f" on {topology.hosts[launch.host]}" if several else ""
        sys.stderr.write(
            f"poprun: instance {rank} (process {failure.pid}{host}) {describe_end(code)}. "
            f"{_describe_others(topology.instances)}\n"
        )
        return 128 - code if code < 0 else code
    except SignalException as error:
        sys.stderr.write(f"poprun: got {error.sigval.name}, and all instances were stopped.\n")
        return 128 + int(error.sigval)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


def describe_end(code: int) -> str:
    """How a process ended, in words."""
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with code {code}"


def choose_program(words: Sequence[str]) -> tuple[str, ...]:
    """A Python file is run by this Python; anything else is a command."""
    if words and words[0].endswith(".py"):
        return (sys.executable, *words)
    return tuple(words)


def _quieten() -> None:
    """What went wrong is said once, by the instance itself and by the last line."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    for name in ("torch.distributed", *logging.root.manager.loggerDict):
        if name.startswith("torch.distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _describe_others(instances: int) -> str:
    if instances == 1:
        return "It was the only one."
    return f"The other {instances - 1} were stopped." if instances > 2 else "The other one was stopped."


def _filter_output(launch: Launch, own: int) -> set[int] | None:
    if launch.only_output_from is None:
        return None
    return {launch.only_output_from - launch.host * own}  # no number of this host: nothing is shown


def _choose_interface(launch: Launch) -> None:
    """Let gloo listen where the other hosts can reach it."""
    other = launch.topology.hosts[0 if launch.host else 1]
    interface = find_interface(other)
    if interface is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)


def _share_cores(instances: int) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // instances)))
