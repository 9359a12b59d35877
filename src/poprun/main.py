"""Reads the command line, and starts instances here or launchers on other hosts.

In: words. Out: the exit code of the job: 0, that of the instance that failed, or 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from openipu.errors import OpenIpuError, OptionError
from openipu.pod import PARTITION_VARIABLE
from openipu.store import choose_directory
from poprun.hosts import parse_hosts, read_host_file
from poprun.launch import Launch, choose_program, launch_instances
from poprun.options import TIMEOUT_VARIABLE, list_without_effect, parse_options, parse_seconds
from poprun.remote import DEFAULT_SHELL, SHELL_VARIABLE, choose_port, parse_exports, run_on_hosts
from poprun.topology import Topology, draw_topology, make_topology

CACHE_VARIABLE = "POPDIST_EXECUTABLE_CACHE_PATH"
DEFAULT_TIMEOUT_SECONDS = 300.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        options = parse_options(words)
        return _run(options, words)
    except OpenIpuError as error:
        sys.stderr.write(f"poprun: {error}\n")
        return 2


def _run(options: argparse.Namespace, words: list[str]) -> int:
    hosts = _choose_hosts(options)
    topology = make_topology(hosts, options.num_instances, options.num_replicas, options.ipus_per_replica)
    chosen = options.only_output_from_instance
    if chosen is not None and not 0 <= chosen < topology.instances:
        raise OptionError(f"--only-output-from-instance {chosen}: the instances are 0 to {topology.instances - 1}.")
    exports = {**parse_exports(options.mpi_local_args), **_choose_variables(options)}
    leads = options.node is None
    if leads and options.verbose:
        for message in list_without_effect(options):
            sys.stderr.write(f"poprun: {message}\n")
    if leads and options.print_topology:
        sys.stdout.write(draw_topology(topology, shutil.get_terminal_size().columns) + "\n")
        sys.stdout.flush()
    os.environ.update(exports)
    if options.watch_stdin:
        threading.Thread(target=_stop_with_parent, daemon=True).start()
    if leads and len(hosts) > 1:
        return _lead_hosts(topology, options, words, exports)
    return launch_instances(
        Launch(
            topology,
            choose_program(options.program),
            host=options.node or 0,
            meeting_point=options.meeting_point or "",
            only_output_from=chosen,
            max_restarts=options.max_restarts,
            instance_timeout_seconds=_choose_timeout(options),
            verbose=bool(options.verbose),
        )
    )


def _lead_hosts(topology: Topology, options: argparse.Namespace, words: list[str], exports: dict[str, str]) -> int:
    meeting_point = f"{topology.hosts[0]}:{choose_port()}"
    shell = options.remote_shell or os.environ.get(SHELL_VARIABLE) or DEFAULT_SHELL
    commands = [
        [sys.executable, "-m", "poprun", f"--node={node}", f"--meeting-point={meeting_point}", "--watch-stdin", *words]
        for node in range(len(topology.hosts))
    ]
    return run_on_hosts(topology.hosts, commands, exports, shell)


def _choose_timeout(options: argparse.Namespace) -> float:
    """The command line's word, else the environment's, else minutes: an instance beats while it computes or waits."""
    if options.instance_timeout is not None:
        return float(options.instance_timeout)
    wished = os.environ.get(TIMEOUT_VARIABLE, "").strip()
    try:
        return parse_seconds(wished) if wished else DEFAULT_TIMEOUT_SECONDS
    except argparse.ArgumentTypeError as error:
        raise OptionError(f"{TIMEOUT_VARIABLE}: {error}.") from None


def _choose_hosts(options: argparse.Namespace) -> list[str]:
    if options.hostfile:
        return read_host_file(Path(options.hostfile))
    return parse_hosts(options.host) if options.host else ["localhost"]


def _choose_variables(options: argparse.Namespace) -> dict[str, str]:
    """What all instances find in their environment, whichever host they are on."""
    cache = options.executable_cache_path or os.environ.get(CACHE_VARIABLE) or str(choose_directory())
    found = {CACHE_VARIABLE: str(Path(cache).expanduser().absolute())}
    if options.vipu_partition:
        found[PARTITION_VARIABLE] = options.vipu_partition
    return found


def _stop_with_parent() -> None:
    """End when the poprun that started this launcher is gone: its end of standard input closes with it."""
    while os.read(0, 4096):  # past Python's own buffer, which a thread must not hold at the end
        pass
    os.kill(os.getpid(), signal.SIGTERM)
