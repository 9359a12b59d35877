"""Which IPUs are neighbours: the ladder of IPU-Links.

In: a system. Out: pairs of IPUs. Two IPUs of a board form a rung, rungs are joined by two rails, and a rack of 64
closes its rails to a torus. Racks are joined by their boards' gateways.
"""

from __future__ import annotations

from dataclasses import dataclass

from openipu.machine import System

IPUS_PER_RACK = 64


@dataclass(frozen=True, slots=True)
class Link:
    """One connection between two IPUs."""

    first: int
    second: int
    kind: str  # "rung", "rail" or "gateway"
    bytes_per_second: float  # one way


def list_links(system: System) -> list[Link]:
    """All links of a system, each once."""
    links = []
    for start in range(0, system.ipus, IPUS_PER_RACK):
        links += _list_rack(system, start, min(start + IPUS_PER_RACK, system.ipus))
    if system.gateway_link_bytes_per_second > 0:
        for start in range(IPUS_PER_RACK, system.ipus, IPUS_PER_RACK):
            for offset in range(0, IPUS_PER_RACK, system.ipus_per_board):
                below, above = start - IPUS_PER_RACK + offset, start + offset
                if above < system.ipus:
                    links.append(Link(below, above, "gateway", system.gateway_link_bytes_per_second))
    return links


def find_rate(system: System, first: int, second: int) -> float:
    """Bytes a second, one way, between two IPUs: gateways carry what goes to another rack."""
    if first // IPUS_PER_RACK != second // IPUS_PER_RACK:
        return system.gateway_link_bytes_per_second
    return system.ipu_link_bytes_per_second


def _list_rack(system: System, start: int, end: int) -> list[Link]:
    rate = system.ipu_link_bytes_per_second
    if rate <= 0:
        return []
    links = [Link(left, left + 1, "rung", rate) for left in range(start, end - 1, 2)]
    links += [Link(left, left + 2, "rail", rate) for left in range(start, end - 2)]
    if end - start == IPUS_PER_RACK:
        links += [Link(start, end - 2, "rail", rate), Link(start + 1, end - 1, "rail", rate)]
    return links
