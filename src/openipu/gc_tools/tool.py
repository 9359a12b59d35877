"""What all gc-* commands share: their options, the choice of IPUs, output, exit codes.

In: words of a command line. Out: an exit code: 0 done or passed, 1 a test failed, 2 wrong usage, or IPUs that are not
there or in use.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from openipu import __version__
from openipu.cli.parser import Parser
from openipu.cli.terminal import drop_closed_streams, print_json, write_message
from openipu.errors import OpenIpuError, PodError
from openipu.pod import PARTITION_VARIABLE, Attachment, Ipu, Pod, find_pod, list_ipus
from openipu.pod.inventory import find_holder

PASSED, FAILED, WRONG = 0, 1, 2
MODELLED, MEASURED = "modelled", "measured on this host"
NOTE = "There is no IPU hardware here: figures are modelled, or measured on this host, as they say."

__all__ = ["FAILED", "MEASURED", "MODELLED", "NOTE", "PASSED", "WRONG", "View", "make_parser", "print_json", "run_tool"]


@dataclass(frozen=True)
class View:
    """The pod as one run of a command sees it: all parts from the same moment."""

    pod: Pod
    attachments: list[Attachment]
    ipus: list[Ipu]

    def choose(self, device_id: int | None) -> list[Ipu]:
        """One IPU, or all of them."""
        if device_id is None:
            return self.ipus
        chosen = [ipu for ipu in self.ipus if ipu.id == device_id]
        if not chosen:
            raise PodError(
                f"There is no device {device_id} in partition {self.pod.partition.name}: it has 0 to "
                f"{len(self.ipus) - 1}. `gc-info -l` lists them."
            )
        return chosen

    def find_holder(self, ipu: Ipu) -> Attachment | None:
        return find_holder(ipu, self.attachments)


def look(partition: str | None = None, *, all_partitions: bool = False) -> View:
    """Read the state of the pod once."""
    pod = find_pod(partition)
    attachments = pod.list_attachments(all_partitions=all_partitions)
    return View(pod, attachments, list_ipus(pod, attachments, all_partitions=all_partitions))


@contextmanager
def hold(view: View, ipu: Ipu, program: str) -> Iterator[None]:
    """Attach to one IPU for the time of a test, as a program would."""
    lease = view.pod.attach(1, ipu.id, program=program)
    if lease is None:
        raise PodError(f"Device {ipu.id} is in use: {view.pod.describe_rivals(1, ipu.id)}. Test it when it is free.")
    try:
        yield
    finally:
        lease.release()


def make_parser(name: str, description: str, epilog: str = "", *, device: bool = True) -> argparse.ArgumentParser:
    """A parser with the options that all commands have."""
    parser = Parser(prog=name, description=description, epilog=f"{epilog}\n{NOTE}" if epilog else NOTE)
    parser.add_argument("--version", action="version", version=f"{name} (openipu {__version__})")
    parser.add_argument("-j", "--json", "--json-output", dest="json", action="store_true", help="print JSON")
    parser.add_argument(
        "--partition", metavar="NAME", help=f"a partition of the pod (default: {PARTITION_VARIABLE}, or the first)"
    )
    if device:
        parser.add_argument("-d", "--device-id", type=int, metavar="ID", help="one device (default: all)")
    return parser


def run_tool(
    parser: argparse.ArgumentParser, execute: Callable[[argparse.Namespace], int], argv: Sequence[str] | None
) -> int:
    """Parse, execute, and turn openipu's errors into one message and exit code 2."""
    arguments = parser.parse_args(argv)
    try:
        code = execute(arguments)
        sys.stdout.flush()  # a reader that has left is noticed here, not when Python ends
        return code
    except OpenIpuError as error:
        write_message(f"{parser.prog}: {error}")
        return WRONG
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has left: not an error
        drop_closed_streams()
        return PASSED
