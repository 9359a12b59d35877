"""What a launcher starts for each instance: sets the environment, then becomes the user's program.

In: torchrun's environment (RANK) and, as words, the job's shape and the program. Out: the program, in this very
process, so that signals and exit codes are its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

from poprun.topology import RUN_ID, Topology


def main() -> None:
    shape, program = json.loads(sys.argv[1]), sys.argv[2:]
    topology = Topology(tuple(shape["hosts"]), shape["instances"], shape["replicas"], shape["ipus_per_replica"])
    os.environ.update(topology.make_environment(int(os.environ["RANK"])))
    _end_with_launcher()
    try:
        os.execvp(program[0], program)
    except OSError as error:
        sys.stderr.write(f"poprun: cannot start {program[0]!r}: {error.strerror}. Check its name and PATH.\n")
        sys.exit(127)


def _end_with_launcher() -> None:
    """Let the system end this process when the launcher is gone, even by `kill -9`. It holds for the program, too."""
    if sys.platform.startswith("linux") and os.environ.get("TORCHELASTIC_RUN_ID") == RUN_ID:
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


if __name__ == "__main__":
    main()
