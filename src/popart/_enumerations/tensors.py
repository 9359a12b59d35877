"""Enumerations of tensors: number formats, where they lie, and how they come and go.

In: nothing. Out: names and numbers of PopART 3.4.
"""

from __future__ import annotations

from popart._enumerations.base import Enumeration


class AnchorReturnTypeId(Enumeration):
    """Which values of an anchored tensor come back to the host."""

    Final = 0
    EveryN = 1
    All = 2
    Sum = 3


class CommGroupType(Enumeration):
    """How replicas are grouped."""

    All = 0
    Consecutive = 1
    Orthogonal = 2
    Ungrouped = 3


class DataType(Enumeration):
    """Number formats of tensors."""

    UINT8 = 0
    INT8 = 1
    FLOAT8_143 = 2
    FLOAT8_152 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    UINT32 = 8
    UINT64 = 9
    BOOL = 10
    FLOAT = 11
    FLOAT16 = 12
    BFLOAT16 = 13
    DOUBLE = 14
    COMPLEX64 = 15
    COMPLEX128 = 16
    STRING = 17
    UNDEFINED = 18


class ExchangeStrategy(Enumeration):
    """How far host transfers overlap with computation."""

    JustInTime = 0
    OverlapInnerLoop = 1
    OverlapLoops = 2
    OverlapStep = 3


class InitType(Enumeration):
    """What a new tensor holds."""

    NoInit = 0
    Zero = 1


class ReplicatedStreamMode(Enumeration):
    """Whether replicas read a stream each, or one together."""

    Broadcast = 0
    Replicate = 1


class ReplicatedTensorSharding(Enumeration):
    """Whether each replica holds a share only."""

    Off = 0
    On = 1


class TensorRemapType(Enumeration):
    """In which passes a tensor is laid out anew."""

    FwdBwdReverse = 0
    FwdBwd = 1
    Fwd = 2


class TensorStorage(Enumeration):
    """In the memory of the tiles, or in that of the host."""

    OnChip = 0
    OffChip = 1


class TileSet(Enumeration):
    """Tiles that compute, and tiles kept for transfers."""

    Compute = 0
    IO = 1


class VariableRetrievalMode(Enumeration):
    """Which replicas' values of a variable come back."""

    OnePerGroup = 0
    AllReduceReplicas = 1
    AllReplicas = 2
