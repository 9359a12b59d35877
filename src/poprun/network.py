"""Which network interface leads to the other hosts.

In: the name of another host. Out: the interface's name, for gloo, which would otherwise take the one that the host's
own name stands for: often the loopback, where nobody else can reach it.
"""

from __future__ import annotations

import socket
import struct
import sys

if sys.platform != "win32":
    import fcntl

_SIOCGIFADDR = 0x8915  # Linux: ask an interface for its IPv4 address


def find_interface(other: str) -> str | None:
    """The interface that packets to `other` leave by; None where it cannot be told."""
    own = _find_own_address(other)
    if own is None or not sys.platform.startswith("linux"):
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:  # an interface without an IPv4 address
                continue
            if socket.inet_ntoa(answer[20:24]) == own:
                return name
    return None


def _find_own_address(other: str) -> str | None:
    """The address that this host has for `other`. Connecting a datagram socket sends nothing."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((other, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return None
