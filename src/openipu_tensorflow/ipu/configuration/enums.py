"""The enumerations of `IPUConfig`, with the numbers that configurations saved as JSON hold."""

from __future__ import annotations

from enum import Enum


class SelectionOrder(Enum):
    """In which order the IPUs of a device are numbered."""

    AUTO = 0
    ZIGZAG = 1
    SNAKE = 2
    HOOF = 3


class DeviceConnectionType(Enum):
    """When a program attaches to its IPUs."""

    ALWAYS = 0  # as soon as the system is configured
    ON_DEMAND = 1  # when the first program runs
    NEVER = 2  # programs are compiled; running one is an error
    PRE_COMPILE = 3  # programs are compiled and kept; running one gives zeros


class SchedulingAlgorithm(Enum):
    """How ops are put into an order."""

    CHOOSE_BEST = 0
    CLUSTERING = 1
    POST_ORDER = 2
    LOOK_AHEAD = 3
    SHORTEST_PATH = 4


class MergeRemoteBuffersBehaviour(Enum):
    """Whether remote buffers of the same shape become one."""

    NO_MERGING = 0
    MERGE = 1
    IF_BENEFICIAL = 2


class StochasticRoundingBehaviour(Enum):
    """Where half results are rounded by chance."""

    OFF = 0
    ON = 1
    REPLICA_IDENTICAL_ONLY = 2

    @classmethod
    def from_bool(cls, value: bool) -> StochasticRoundingBehaviour:
        """ON for True, OFF for False."""
        return cls.ON if value else cls.OFF


class ExecutionProfileType(Enum):
    """What older programs asked a profile to hold."""

    NO_PROFILE = 0
    DEVICE_PROFILE = 1
    IPU_PROFILE = 2
    TILE_PROFILE = 3
