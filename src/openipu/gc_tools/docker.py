"""`gc-docker`: a container that sees the same virtual pod.

In: words of `docker run`. Out: the container, or with `--echo` the command. The pod's state is mounted, and its locks
hold across containers of one machine, so that programs inside and outside share IPUs as they should.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from openipu.errors import OptionError, PodError
from openipu.gc_tools.tool import look, make_parser, print_json, run_tool
from openipu.machine import SYSTEM_VARIABLE
from openipu.pod import FABRIC_VARIABLE, PARTITION_VARIABLE, POD_VARIABLE, STATE_VARIABLE, choose_state_directory

STATE_INSIDE = "/run/openipu"
POD_INSIDE = "/etc/openipu-pod.toml"
FABRIC_INSIDE = "/etc/ipuof.conf"

_EPILOG = """\
examples
  gc-docker -- -it --rm my-image python3 train.py
  gc-docker --echo -- -it my-image
"""


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    own, run = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = make_parser("gc-docker", "Start a container with the IPUs of the virtual pod.", _EPILOG, device=False)
    parser.usage = "gc-docker [options] -- <words of docker run>"
    parser.add_argument("-e", "--echo", action="store_true", help="print the command instead of running it")

    def execute(arguments: object) -> int:
        partition = getattr(arguments, "partition", None)
        if not run:
            raise OptionError("There is no image to run: give it after --, such as `gc-docker -- -it my-image`.")
        command = build_command(run, look(partition).pod.partition.name if partition else None)
        if getattr(arguments, "json", False):
            print_json({"command": command})
            return 0
        if getattr(arguments, "echo", False):
            print(shlex.join(command))
            return 0
        if shutil.which(command[0]) is None:
            raise PodError(f"docker is not installed here. The command would be: {shlex.join(command)}")
        choose_state_directory().mkdir(parents=True, exist_ok=True)
        return subprocess.run(command, check=False).returncode

    return run_tool(parser, execute, own)


def build_command(run: Sequence[str], partition: str | None = None) -> list[str]:
    """`docker run` with the state of the pod mounted, and with the variables that choose it."""
    command = ["docker", "run", "--ipc=host", "--network=host", "-v", f"{choose_state_directory()}:{STATE_INSIDE}"]
    variables = {STATE_VARIABLE: STATE_INSIDE}
    if system := os.environ.get(SYSTEM_VARIABLE):
        variables[SYSTEM_VARIABLE] = system
    if chosen := partition or os.environ.get(PARTITION_VARIABLE):
        variables[PARTITION_VARIABLE] = chosen
    for name, inside in ((POD_VARIABLE, POD_INSIDE), (FABRIC_VARIABLE, FABRIC_INSIDE)):
        value = os.environ.get(name)
        if value and Path(value).is_file():
            command += ["-v", f"{Path(value).absolute()}:{inside}:ro"]
            variables[name] = inside
        elif value:
            variables[name] = value
    for name, value in variables.items():
        command += ["-e", f"{name}={value}"]
    return [*command, *run]
