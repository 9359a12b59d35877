"""The enumerations of the original interface."""

from __future__ import annotations

from enum import Enum, IntEnum


class ProgramType(Enum):
    """What a program does. Those that openipu never makes are there for scripts that name them."""

    Sequence = "Sequence"
    Repeat = "Repeat"
    OnTileExecute = "OnTileExecute"
    DoExchange = "DoExchange"
    GlobalExchange = "GlobalExchange"
    StreamCopyBegin = "StreamCopyBegin"
    StreamCopyMid = "StreamCopyMid"
    StreamCopyEnd = "StreamCopyEnd"
    Sync = "Sync"
    Sans = "Sans"
    SyncAns = "SyncAns"
    Call = "Call"
    OnEveryTileSwitch = "OnEveryTileSwitch"
    WriteUndef = "WriteUndef"
    Unknown = "Unknown"


class TargetType(Enum):
    """What a program was compiled for. A plan is always of a model."""

    Cpu = "Cpu"
    Ipu = "Ipu"
    IpuModel = "IpuModel"
    Unknown = "Unknown"


class Architecture(Enum):
    """Generations of IPUs, by the name that their compiler has for them."""

    Ipu1 = "ipu1"
    Ipu2 = "ipu2"
    Ipu21 = "ipu21"
    Unknown = "unknown"


class ComputeInstrumentationLevel(IntEnum):
    """How finely cycles of compute sets were measured. A plan measures nothing."""

    Off = 0
    Vertex = 1
    Tile = 2
    Ipu = 3
    Device = 4
    Unknown = 5


class ExternalExchangeInstrumentationLevel(IntEnum):
    """How finely cycles of external exchanges were measured."""

    Off = 0
    Tile = 1
    Unknown = 2
