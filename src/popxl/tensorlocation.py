"""Where tensors are kept: names for settings."""

from __future__ import annotations

from enum import Enum

from popart import TileSet

__all__ = ["ExecutionContext", "ReplicatedTensorSharding", "TensorLocation", "TensorStorage", "TileSet"]


class TensorStorage(Enum):
    """In the memory of tiles, or in streaming memory."""

    OnChip = "OnChip"
    OffChip = "OffChip"


class ReplicatedTensorSharding(Enum):
    """Does each replica keep one share of it?"""

    On = "On"
    Off = "Off"


class ExecutionContext(Enum):
    """Which part of a session's life an op belongs to."""

    Normal = 0
    AccumulateOuterFragment = 1
    WeightsFromHostFragment = 2
    WeightsToHostFragment = 3
    OptimizerFromHostFragment = 4
    Subgraph = 5


class TensorLocation:
    """A place: storage, and whether it is shared out."""

    def __init__(
        self,
        storage: TensorStorage = TensorStorage.OnChip,
        replicated_tensor_sharding: ReplicatedTensorSharding = ReplicatedTensorSharding.Off,
    ) -> None:
        self._storage, self._sharding = storage, replicated_tensor_sharding

    @property
    def storage(self) -> TensorStorage:
        """Where it is."""
        return self._storage

    @property
    def replicated_tensor_sharding(self) -> ReplicatedTensorSharding:
        """Whether replicas share it out."""
        return self._sharding
