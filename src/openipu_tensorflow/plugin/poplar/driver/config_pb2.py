"""The enumerations of a configuration's message, as the numbers that they are there."""

from openipu_tensorflow.ipu.configuration.flags import SyntheticDataCategory as _Category
from openipu_tensorflow.ipu.configuration.message import Message as IpuOptions


class IpuSelectionOrder:
    AUTO, ZIGZAG, SNAKE, HOOF = range(4)


class IpuDeviceConnectionType:
    ALWAYS, ON_DEMAND, NEVER, PRE_COMPILE = range(4)


class IpuExecutionProfileType:
    NO_PROFILE, DEVICE_PROFILE, IPU_PROFILE, TILE_PROFILE = range(4)


class IpuSchedulingAlgorithm:
    CHOOSE_BEST, CLUSTERING, POST_ORDER, LOOK_AHEAD, SHORTEST_PATH = range(5)


class SyntheticDataCategory:
    Seed, Infeed, Outfeed, HostEmbedding, Parameters = (entry.value for entry in _Category)


StochasticRounding_Off, StochasticRounding_On, StochasticRounding_ReplicaIdenticalOnly = range(3)

__all__ = [
    "IpuDeviceConnectionType",
    "IpuExecutionProfileType",
    "IpuOptions",
    "IpuSchedulingAlgorithm",
    "IpuSelectionOrder",
    "StochasticRounding_Off",
    "StochasticRounding_On",
    "StochasticRounding_ReplicaIdenticalOnly",
    "SyntheticDataCategory",
]
