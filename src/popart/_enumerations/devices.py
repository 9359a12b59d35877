"""Enumerations of devices: what runs a graph, and when it is attached.

In: nothing. Out: names and numbers of PopART 3.4.
"""

from __future__ import annotations

from popart._enumerations.base import Enumeration


class DeviceConnectionType(Enumeration):
    """When a session attaches to its device."""

    Always = 0
    OnDemand = 1
    Never = 2


class DeviceSelectionCriterion(Enumeration):
    """Which of the free devices is taken."""

    First = 0
    Random = 1


class DeviceType(Enumeration):
    """What runs a graph."""

    IpuModel = 0
    Cpu = 1
    Ipu = 2
    OfflineIpu = 3
    Sim = 4


class SyncPattern(Enumeration):
    """Which IPUs wait for each other."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2
