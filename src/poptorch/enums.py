"""The enumerations that PopTorch users pass to options, ops and strategies: names and numbers as they know them."""

from __future__ import annotations

import enum


class MeanReductionStrategy(enum.IntEnum):
    """When a mean over accumulation steps is divided."""

    Running = 0
    Post = 1
    PostAndLoss = 2


class DataLoaderMode(enum.IntEnum):
    """Where batches are loaded."""

    Sync = 0
    Async = 1
    AsyncRebatched = 2


class SharingStrategy(enum.IntEnum):
    """How an asynchronous loader hands tensors over."""

    SharedMemory = 0
    FileSystem = 1
    Fork = 2
    ForkServer = 3


class OutputMode(enum.IntEnum):
    """Which results come back to the host."""

    Final = 0
    EveryN = 1
    All = 2
    Sum = 3
    Default = 4  # All for inference, Final for training


class ConnectionType(enum.IntEnum):
    """When the executor attaches to its device."""

    Always = 0
    OnDemand = 1
    Never = 2


class HalfFloatCastingBehavior(enum.IntEnum):
    """What mixed operands once became; only the default is left."""

    FloatDowncastToHalf = 0
    HalfUpcastToFloat = 1
    Default = 2


class ReductionType(enum.IntEnum):
    """How values are combined."""

    Sum = 0
    Mean = 1
    NoReduction = 2


class SyncPattern(enum.IntEnum):
    """Which IPUs wait for each other."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class Liveness(enum.IntEnum):
    """When phased execution sends tensors off chip."""

    AlwaysLive = 0
    OffChipAfterFwd = 1
    OffChipAfterFwdNoOverlap = 2
    OffChipAfterEachPhase = 3


class AutoStage(enum.IntEnum):
    """How blocks become pipeline stages when no stage is given."""

    SameAsIpu = 0
    AutoIncrement = 1


class MultiConvPlanType(enum.IntEnum):
    """How the convolutions of one multi-convolution share the tiles."""

    Parallel = 0
    Serial = 1


class CommGroupType(enum.IntEnum):
    """How replicas form groups."""

    All = 0
    Consecutive = 1
    Orthogonal = 2
    NoGrouping = 3


class VariableRetrievalMode(enum.IntEnum):
    """Which replicas' copies of a variable come back."""

    OnePerGroup = 0
    AllReplicas = 2


class MatMulSerializationMode(enum.Enum):
    """Along which dimension a matrix product is cut."""

    InputChannels = "input_channels"
    ReducingDim = "reducing_dim"
    OutputChannels = "output_channels"
    Disabled = "none"


class OverlapMode(enum.Enum):
    """How host input and output overlap with compute."""

    NoOverlap = "no_overlap"
    OverlapAccumulationLoop = "overlap_accumulation_loop"
    OverlapDeviceIterationLoop = "overlap_device_iteration_loop"
