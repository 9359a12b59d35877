"""Groups of session options: locations of tensors, phases, serialisation, automatic loss scaling.

In: values by keyword. Out: attributes of the same names; others raise AttributeError.
"""

from __future__ import annotations

from typing import Any, ClassVar

from popart._build.settings import CommGroup
from popart._enumerations.sessions import (
    AccumulateOuterFragmentSchedule,
    AutodiffStitchStrategy,
    BatchSerializationBatchSchedule,
    BatchSerializationMethod,
    BatchSerializationTransformContext,
    ExecutionPhaseIOSchedule,
    ExecutionPhaseSchedule,
    GradientTensorTrackingMethod,
)
from popart._enumerations.tensors import ReplicatedTensorSharding, TensorStorage, TileSet


class _Group:
    """Values under fixed names, given in their order or by keyword."""

    _usual: ClassVar[dict[str, Any]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = list(self._usual)
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes {', '.join(names)}.")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        unknown = [name for name in given if name not in self._usual]
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {unknown[0]!r}. It takes {', '.join(names)}.")
        for name, usual in self._usual.items():
            value = given.get(name, usual)
            object.__setattr__(self, name, list(value) if isinstance(value, list) else value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._usual:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._usual)
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(getattr(self, name) == getattr(other, name) for name in self._usual)

    __hash__ = None  # type: ignore[assignment]


class TensorLocation(_Group):
    """Where a tensor is kept, which tiles load it, and whether replicas share it out."""

    _usual: ClassVar[dict[str, Any]] = {
        "storage": TensorStorage.OnChip,
        "loadTileSet": TileSet.Compute,
        "storageTileSet": TileSet.Compute,
        "replicatedTensorSharding": ReplicatedTensorSharding.Off,
        "shardingDomain": CommGroup(),
    }
    storage: TensorStorage
    loadTileSet: TileSet
    storageTileSet: TileSet
    replicatedTensorSharding: ReplicatedTensorSharding
    shardingDomain: CommGroup

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = list(args)
        if len(given) > 1 and isinstance(given[1], ReplicatedTensorSharding):  # the short form
            given[1:1] = [TileSet.Compute, TileSet.Compute]
        super().__init__(*given, **kwargs)

    def _serialise(self) -> list[int]:
        return [int(self.storage), int(self.loadTileSet), int(self.storageTileSet), int(self.replicatedTensorSharding)]


class TensorLocationSettings(_Group):
    """Where tensors of a kind are kept, and from which size on."""

    _usual: ClassVar[dict[str, Any]] = {
        "location": None,
        "minElementsForOffChip": 2,
        "minElementsForReplicatedTensorSharding": 8192,
    }
    location: TensorLocation
    minElementsForOffChip: int
    minElementsForReplicatedTensorSharding: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "storage" in kwargs:
            kwargs["location"] = kwargs.pop("storage")
        super().__init__(*args, **kwargs)
        given: Any = self.location
        if not isinstance(given, TensorLocation):
            self.location = TensorLocation() if given is None else TensorLocation(given)


class AutomaticLossScalingSettings(_Group):
    """The loss scale follows the gradients' sizes."""

    _usual: ClassVar[dict[str, Any]] = {
        "enabled": False,
        "toTrackTensors": None,
        "binEdgeLocation": 0.125,
        "thresholdUpperCountProportion": 1e-7,
        "updatePeriod": 1,
        "gradientTensorTrackingMethod": GradientTensorTrackingMethod.AllNonViewChangingGradientTensors,
    }
    enabled: bool
    toTrackTensors: list[str] | None
    binEdgeLocation: float
    thresholdUpperCountProportion: float
    updatePeriod: int
    gradientTensorTrackingMethod: GradientTensorTrackingMethod


class BatchSerializationSettings(_Group):
    """Cutting a batch into parts that run one after the other."""

    _usual: ClassVar[dict[str, Any]] = {
        "factor": 0,
        "concatOnVirtualGraphChange": True,
        "concatOnExecutionPhaseChange": True,
        "concatOnPipelineStageChange": True,
        "transformContext": BatchSerializationTransformContext.Fwd,
        "method": BatchSerializationMethod.UnrollDynamic,
        "batchSchedule": BatchSerializationBatchSchedule.Isomorphic,
    }
    factor: int


class ReplicatedCollectivesSettings(_Group):
    """Which collectives are merged."""

    _usual: ClassVar[dict[str, Any]] = {
        "prepareScheduleForMergingCollectives": False,
        "mergeAllReduceCollectives": False,
        "mergeReduceScatterCollectives": False,
        "mergeAllGatherCollectives": False,
    }


class AutodiffSettings(_Group):
    """What a gradient graph takes from the forward graph."""

    _usual: ClassVar[dict[str, Any]] = {"stitchStrategy": AutodiffStitchStrategy.RecomputeAllNonInputs}


class ExecutionPhaseSettings(_Group):
    """How many phases there are, and how they take turns."""

    _usual: ClassVar[dict[str, Any]] = {
        "phases": 0,
        "stages": 2,
        "weightIOSchedule": ExecutionPhaseIOSchedule.Preload,
        "activationIOSchedule": ExecutionPhaseIOSchedule.Preload,
        "optimizerStateIOSchedule": ExecutionPhaseIOSchedule.OnDemand,
        "accumulatorIOSchedule": ExecutionPhaseIOSchedule.Preload,
        "schedule": ExecutionPhaseSchedule.Interleaving,
    }
    phases: int
    stages: int


class AccumulateOuterFragmentSettings(_Group):
    """How the end of an accumulation is scheduled."""

    _usual: ClassVar[dict[str, Any]] = {"schedule": AccumulateOuterFragmentSchedule.Serial, "excludedVirtualGraphs": []}


class ExperimentalSettings(_Group):
    """What may change."""

    _usual: ClassVar[dict[str, Any]] = {
        "customTransformApplierSettings": {},
        "createHostTransferableTensorWithOffset": False,
    }
