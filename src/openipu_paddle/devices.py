"""IPUs as Paddle sees them: places, devices, how many there are.

In: requests of a script. Out: a place that Paddle's own executor accepts, counts from the virtual pod, leases of it.
"""

from __future__ import annotations

import re
from typing import Any

from openipu.errors import OptionError, PodError
from openipu.pod import Lease, find_pod

INSTALLED_IPUS = 64  # where no pod is set up
_held: list[Lease] = []  # at most one: Paddle has one backend


def count_devices() -> int:
    """IPUs of the virtual pod's partition."""
    pod = find_pod()
    return INSTALLED_IPUS if pod.open else pod.partition.ipus


def reserve_ipus(count: int, program: str = "") -> None:
    """Take IPUs for a program, and give back those of the one before: as many as a power of two, as on hardware."""
    release_ipus()
    pod = find_pod()
    wanted = 1 << (count - 1).bit_length()
    if not pod.open and wanted > pod.partition.ipus:
        raise OptionError(
            f"num_ipus is {count}, for which {wanted} IPUs are taken, and the partition has {pod.partition.ipus}: "
            "lower num_ipus of set_graph_config, or set up a larger pod."
        )
    lease = pod.attach(wanted, None, program=program, installed=None if pod.open else pod.partition.ipus)
    if lease is None:
        raise PodError(f"{wanted} IPUs are not free: {pod.describe_rivals(wanted, None)}.")
    _held.append(lease)


def release_ipus() -> None:
    """Give back what is held."""
    while _held:
        _held.pop().release()


def make_place_class(base: Any) -> Any:
    """A place that Paddle takes for one of the host, where everything of the scope lies."""

    class IPUPlace(base):  # type: ignore[misc]
        """An IPU."""

        def __init__(self, identity: int = 0) -> None:
            super().__init__()
            self._identity = check_number(identity, "IPUPlace")

        def __repr__(self) -> str:
            return f"Place(ipu:{self._identity})"

        __str__ = __repr__

        def ipu_device_id(self) -> int:
            """Its number."""
            return self._identity

        def get_device_id(self) -> int:
            """Its number."""
            return self._identity

        def is_ipu_place(self) -> bool:
            """Yes."""
            return True

    return IPUPlace


def read_device(name: str) -> int | None:
    """The number in "ipu" or "ipu:3"; None for other devices."""
    found = re.fullmatch(r"ipu(?::(\d+))?", name.lower())
    if found is None:
        return None
    return check_number(int(found.group(1) or 0), f"The device {name!r}")


def check_number(number: int, what: str) -> int:
    """The number of an IPU that is there."""
    count = count_devices()
    if not isinstance(number, int) or not 0 <= number < count:
        raise OptionError(f"{what} names IPU {number!r}, which is not there: the IPUs are 0 to {count - 1}.")
    return number
