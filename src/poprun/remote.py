"""Several hosts: one launcher on each, started through a remote shell.

In: a job's shape and the words for each host's launcher. Out: the exit code of the first launcher that failed, or 0.
When one ends in failure the others are stopped.
"""

from __future__ import annotations

import itertools
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from openipu.errors import OptionError
from poprun.hosts import is_this_host

DEFAULT_SHELL = "ssh -o BatchMode=yes {host} {command}"
SHELL_VARIABLE = "POPRUN_REMOTE_SHELL"

_FORWARDED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "OMP_NUM_THREADS", "PYTHONUNBUFFERED")
_FORWARDED_PREFIXES = ("OPENIPU_", "POPTORCH_", "POPLAR_", "POPART_", "POPDIST_", "IPUOF_", "GLOO_")
_LOOK_SECONDS = 0.2
_STOP_SECONDS = 12.0  # launchers need some to stop their own instances


def run_on_hosts(hosts: Sequence[str], commands: Sequence[Sequence[str]], extra: Mapping[str, str], shell: str) -> int:
    """Run one command on each host, side by side."""
    if "{command}" not in shell:
        raise OptionError(f"The remote shell {shell!r} has no {{command}}. An example: {DEFAULT_SHELL!r}.")
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for host, words in zip(hosts, commands, strict=True):
            local = shell == DEFAULT_SHELL and is_this_host(host)
            line = list(words) if local else build_remote_line(shell, host, words, extra)
            environment = {**os.environ, **extra}
            # A group of its own, so that Ctrl-C reaches each launcher once: from here.
            # Its standard input stays open as long as this process lives: a launcher ends with it.
            running[host] = subprocess.Popen(line, env=environment, start_new_session=True, stdin=subprocess.PIPE)
        return _watch(running)
    except KeyboardInterrupt:
        sys.stderr.write("poprun: interrupted, and all hosts are told to stop.\n")
        return 128 + signal.SIGINT
    finally:
        _stop([process for process in running.values() if process.poll() is None])


def build_remote_line(shell: str, host: str, words: Sequence[str], extra: Mapping[str, str]) -> list[str]:
    """The words that start a command on another host, in the same directory and with the variables it needs."""
    kept = {
        name: value for name, value in os.environ.items() if name in _FORWARDED or name.startswith(_FORWARDED_PREFIXES)
    }
    settings = [f"{name}={value}" for name, value in {**kept, **extra}.items()]
    command = f"cd {shlex.quote(os.getcwd())} && exec env {shlex.join([*settings, *words])}"
    return [command if word == "{command}" else word.replace("{host}", host) for word in shlex.split(shell)]


def choose_port() -> int:
    """A port that is free here now; it is likely to be free on the first host as well."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def parse_exports(text: str) -> dict[str, str]:
    """`-x NAME` and `-x NAME=value`, as mpirun takes them. Other words are for mpirun alone, and are left out."""
    found: dict[str, str] = {}
    words = shlex.split(text)
    for option, value in itertools.pairwise(words):
        if option == "-x":
            name, equals, given = value.partition("=")
            if equals or name in os.environ:
                found[name] = given if equals else os.environ[name]
    return found


def _watch(running: Mapping[str, subprocess.Popen[bytes]]) -> int:
    while True:
        codes = {host: process.poll() for host, process in running.items()}
        failed = {host: code for host, code in codes.items() if code}
        if failed:
            host, code = next(iter(failed.items()))
            sys.stderr.write(
                f"poprun: the launcher on {host} ended with code {code}, and the other hosts are stopped.\n"
            )
            return 128 - code if code < 0 else code
        if all(code == 0 for code in codes.values()):
            return 0
        time.sleep(_LOOK_SECONDS)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    end = time.monotonic() + _STOP_SECONDS
    for process in processes:
        try:
            process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
