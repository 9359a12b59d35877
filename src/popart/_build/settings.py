"""How single inputs and variables are treated: `InputSettings`, `CommGroup`, `VariableSettings`.

In: enumerations and numbers. Out: the same, as entries of a model's metadata, and groups of replicas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from popart._exceptions import popart_exception
from popart._enumerations.tensors import CommGroupType, ExchangeStrategy, ReplicatedStreamMode, TileSet, VariableRetrievalMode

TILE_SET = "__tile_set"
EXCHANGE = "__exchange_strategy"
STREAM_MODE = "__replicated_stream_mode"
GROUP_TYPE = "__comm_group_type"
GROUP_SIZE = "__comm_group_size"
RETRIEVAL = "__variable_settings"


class InputSettings:
    """Which tiles load an input, when, and whether replicas get values of their own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._tiles = kwargs.pop("tileSet", TileSet.Compute)
        self._exchange = kwargs.pop("exchangeStrategy", ExchangeStrategy.JustInTime)
        self._mode = kwargs.pop("replicatedStreamMode", kwargs.pop("relicatedStreamMode", ReplicatedStreamMode.Replicate))
        for value in args:
            if isinstance(value, TileSet):
                self._tiles = value
            elif isinstance(value, ExchangeStrategy):
                self._exchange = value
            elif isinstance(value, ReplicatedStreamMode):
                self._mode = value
            else:
                raise TypeError(f"InputSettings does not take {value!r}.")
        if kwargs:
            raise TypeError(f"InputSettings does not take {', '.join(kwargs)}.")

    def tileSet(self) -> TileSet:
        """Which tiles load it."""
        return TileSet(self._tiles)

    def exchangeStrategy(self) -> ExchangeStrategy:
        """When it is loaded."""
        return ExchangeStrategy(self._exchange)

    def replicatedStreamMode(self) -> ReplicatedStreamMode:
        """Whether replicas get values of their own."""
        return ReplicatedStreamMode(self._mode)

    def describe(self) -> Mapping[str, int]:
        """What differs from the usual, as metadata."""
        found = {TILE_SET: int(self._tiles), EXCHANGE: int(self._exchange), STREAM_MODE: int(self._mode)}
        usual = {TILE_SET: int(TileSet.Compute), EXCHANGE: 0, STREAM_MODE: int(ReplicatedStreamMode.Replicate)}
        return {key: value for key, value in found.items() if value != usual[key]}


@dataclass(frozen=True, slots=True)
class CommGroup:
    """A group of replicas."""

    type: CommGroupType = CommGroupType.All
    replicaGroupSize: int = 0


class VariableSettings:
    """Which replicas share a variable, and what comes back of it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._group: CommGroup = kwargs.pop("sharedVariableDomain_", CommGroup())
        self._mode = kwargs.pop("retrievalMode_", VariableRetrievalMode.OnePerGroup)
        for value in args:
            if isinstance(value, CommGroup):
                self._group = value
            elif isinstance(value, VariableRetrievalMode):
                self._mode = value
            else:
                raise TypeError(f"VariableSettings does not take {value!r}.")
        if kwargs:
            raise TypeError(f"VariableSettings does not take {', '.join(kwargs)}.")

    def getSharedVariableDomain(self) -> CommGroup:
        """The group of replicas that share it."""
        return self._group

    def getRetrievalMode(self) -> VariableRetrievalMode:
        """What comes back to the host."""
        return VariableRetrievalMode(self._mode)

    def getRealGroupSize(self, replicas: int) -> int:
        """How many replicas share it."""
        kind, size = self._group.type, self._group.replicaGroupSize
        if kind == CommGroupType.All:
            return replicas
        if kind == CommGroupType.Ungrouped:
            return 1
        if size < 1 or replicas % size:
            raise popart_exception(f"A group of {size} replicas does not divide {replicas}.")
        return size

    def getGroupCount(self, replicas: int) -> int:
        """How many groups there are."""
        return replicas // self.getRealGroupSize(replicas)

    def groups(self, replicas: int) -> list[list[int]]:
        """The replicas of each group."""
        size, count = self.getRealGroupSize(replicas), self.getGroupCount(replicas)
        if self._group.type == CommGroupType.Orthogonal:
            return [[index + place * count for place in range(size)] for index in range(count)]
        return [[index * size + place for place in range(size)] for index in range(count)]

    def getGroupRepresentative(self, group: int, replicas: int = 0) -> int:
        """The first replica of a group."""
        if self._group.type == CommGroupType.Orthogonal or self._group.type == CommGroupType.Ungrouped:
            return group
        return 0 if self._group.type == CommGroupType.All else group * self._group.replicaGroupSize

    def numReplicasReturningVariable(self, replicas: int) -> int:
        """How many values come back."""
        return replicas if self._mode == VariableRetrievalMode.AllReplicas else self.getGroupCount(replicas)

    def shapeOnReplica(self, shape: list[int], replicas: int, name: str = "") -> list[int]:
        """The shape that one replica holds, of a host shape with one value for each group in front."""
        groups = self.getGroupCount(replicas)
        if groups == 1:
            return list(shape)
        if not shape or shape[0] != groups:
            raise popart_exception(
                f"Return mandates tensor {name} to have first dimension {groups} (one value for each group of "
                f"replicas), and its shape is {shape}."
            )
        return list(shape[1:])

    def shapeOnHost(self, shape: list[int], replicas: int) -> list[int]:
        """The shape that comes back."""
        count = self.numReplicasReturningVariable(replicas)
        return list(shape) if count == 1 else [count, *shape]

    def verify(self) -> None:
        """Refuse settings that contradict each other."""
        if self._group.type in (CommGroupType.Consecutive, CommGroupType.Orthogonal) and self._group.replicaGroupSize < 1:
            raise popart_exception(f"A group of {self._group.replicaGroupSize} replicas is none.")

    def describe(self) -> Mapping[str, int]:
        """As metadata."""
        return {
            GROUP_TYPE: int(self._group.type),
            GROUP_SIZE: int(self._group.replicaGroupSize),
            RETRIEVAL: int(self._mode),
        }
