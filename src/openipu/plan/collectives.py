"""What replicas exchange: rings over the links of the described machine.

In: bytes, how many replicas of how many IPUs take part, a `System`. Out: cycles.
Every IPU of a replica has a ring of its own with the same IPU of the other replicas. A ring of n takes n - 1 turns to
reduce and n - 1 to gather; in a turn each member passes 1/n of the bytes on. All members keep step, so the slowest link
on the way sets the pace: between neighbours on a board, between boards of a rack, or between racks.
"""

from __future__ import annotations

from dataclasses import dataclass

from openipu.machine import System

RACK_IPUS = 64  # published: IPU-Links join the IPUs of a POD64; GW-Links join such racks
GATEWAY_LINKS = 2  # published: a board has two GW-Links, one to either neighbour
SYNC_SECONDS_PER_HOP = 15e-9  # Poplibs' machine model: a sync over several IPUs goes to its root and back


@dataclass(frozen=True, slots=True)
class Ring:
    """`members` replicas, each `ipus` wide."""

    members: int
    ipus: int
    bytes_per_second: float
    turn_seconds: float

    def pass_shares(self, total_bytes: float, rounds: int) -> float:
        """Seconds until all but its own share has passed every member, `rounds` times."""
        if self.members <= 1:
            return 0.0
        turns = rounds * (self.members - 1)
        return turns * (total_bytes / self.members / self.bytes_per_second + self.turn_seconds)


def make_ring(members: int, ipus: int, system: System) -> Ring:
    """The ring of one IPU of each replica. Cards without links pass everything through the host."""
    spanned = members * max(1, ipus)
    if system.ipu_link_bytes_per_second <= 0:
        return Ring(members, ipus, system.host_bytes_per_second, system.host_latency_seconds)
    turn = system.ipu_link_latency_seconds + system.ipu_link_hop_seconds
    turn += system.target.phase_launch_cycles / system.target.clock_hz + time_sync(spanned)
    return Ring(members, ipus, find_ring_rate(spanned, system), turn)


def find_ring_rate(spanned_ipus: int, system: System) -> float:
    """Bytes a second over the slowest link of a ring over so many IPUs."""
    if spanned_ipus > RACK_IPUS and system.gateway_link_bytes_per_second > 0:
        return system.gateway_link_bytes_per_second / GATEWAY_LINKS
    if spanned_ipus > system.ipus_per_board and system.off_board_link_bytes_per_second > 0:
        return system.off_board_link_bytes_per_second
    return system.ipu_link_bytes_per_second


def find_copy_rate(source_ipu: int, destination_ipu: int, system: System) -> float:
    """Bytes a second between two IPUs of one replica, which begins on a board of its own."""
    board = system.ipus_per_board
    leaves = source_ipu // board != destination_ipu // board
    if leaves and system.off_board_link_bytes_per_second > 0:
        return system.off_board_link_bytes_per_second
    return system.ipu_link_bytes_per_second


def time_sync(ipus: int) -> float:
    """Seconds until so many IPUs know that all of them are ready."""
    hops = 1 + ipus // 2 // 2
    return SYNC_SECONDS_PER_HOP * hops * 2 if ipus > 1 else 0.0


def count_all_reduce_cycles(total_bytes: float, members: int, ipus: int, system: System) -> float:
    """Reduce, so that each has the sum of its share, then gather the shares."""
    return make_ring(members, ipus, system).pass_shares(total_bytes, 2) * system.target.clock_hz


def count_share_cycles(total_bytes: float, members: int, ipus: int, system: System) -> float:
    """Only one half of an all-reduce: to reduce into shares, or to gather them."""
    return make_ring(members, ipus, system).pass_shares(total_bytes, 1) * system.target.clock_hz
