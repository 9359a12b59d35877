"""PopART's enumerations on openipu: the names that options of other front ends are given by. Unofficial.

In: nothing. Out: enumerations whose members are the numbers of PopART 3.4, so that
`options._Popart.set("autoRecomputation", popart.RecomputationType.Standard)` says what it said there. Building and
running graphs through PopART itself is not there: asking for such a name raises AttributeError with advice.
"""

from typing import NoReturn

from popart._devices import DeviceConnectionType, DeviceSelectionCriterion, DeviceType, SyncPattern
from popart._session import (
    AccumulateOuterFragmentSchedule,
    AutodiffStitchStrategy,
    BatchSerializationBatchSchedule,
    BatchSerializationMethod,
    BatchSerializationTransformContext,
    ExecutionPhaseIOSchedule,
    ExecutionPhaseSchedule,
    GradientTensorTrackingMethod,
    Instrumentation,
    IrSerializationFormat,
    MergeVarUpdateType,
    PatternsLevel,
    RecomputationType,
    RecomputeType,
    SubgraphCopyingStrategy,
    SyntheticDataMode,
    VirtualGraphMode,
)
from popart._tensors import (
    AnchorReturnTypeId,
    CommGroupType,
    DataType,
    ExchangeStrategy,
    InitType,
    ReplicatedStreamMode,
    ReplicatedTensorSharding,
    TensorRemapType,
    TensorStorage,
    TileSet,
    VariableRetrievalMode,
)
from popart._training import (
    AdamMode,
    AdaptiveMode,
    MeanReductionStrategy,
    ReductionType,
    ScatterReduction,
    SGDAccumulatorAndMomentum,
    WeightDecayMode,
)

__version__ = "3.4.0"  # the version of the interface that these names are of

_ADVICE = {  # names that scripts ask for -> what to do instead; all others get the general answer
    "DotCheck": 'PopART removed it in 2.4. Give option dotChecks a list of words, such as ["Fwd0", "Final"].',
    "Builder": "Write the model as a torch.nn.Module, and wrap it with poptorch.inferenceModel or trainingModel.",
    "InferenceSession": "Use poptorch.inferenceModel.",
    "TrainingSession": "Use poptorch.trainingModel.",
    "SessionOptions": "Give options by name to poptorch.Options()._Popart.set(name, value).",
    "DeviceManager": "Choose the system with `openipu run --system`; gcipuinfo lists the IPUs.",
}


def __getattr__(name: str) -> NoReturn:
    advice = _ADVICE.get(name, "Use poptorch to build and run models.")
    if name.startswith("__"):  # Python's own questions, such as __path__
        raise AttributeError(f"module 'popart' has no attribute {name!r}")
    raise AttributeError(f"popart.{name} is not there: openipu has the enumerations of PopART only. {advice}")


__all__ = [
    "AccumulateOuterFragmentSchedule",
    "AdamMode",
    "AdaptiveMode",
    "AnchorReturnTypeId",
    "AutodiffStitchStrategy",
    "BatchSerializationBatchSchedule",
    "BatchSerializationMethod",
    "BatchSerializationTransformContext",
    "CommGroupType",
    "DataType",
    "DeviceConnectionType",
    "DeviceSelectionCriterion",
    "DeviceType",
    "ExchangeStrategy",
    "ExecutionPhaseIOSchedule",
    "ExecutionPhaseSchedule",
    "GradientTensorTrackingMethod",
    "InitType",
    "Instrumentation",
    "IrSerializationFormat",
    "MeanReductionStrategy",
    "MergeVarUpdateType",
    "PatternsLevel",
    "RecomputationType",
    "RecomputeType",
    "ReductionType",
    "ReplicatedStreamMode",
    "ReplicatedTensorSharding",
    "SGDAccumulatorAndMomentum",
    "ScatterReduction",
    "SubgraphCopyingStrategy",
    "SyncPattern",
    "SyntheticDataMode",
    "TensorRemapType",
    "TensorStorage",
    "TileSet",
    "VariableRetrievalMode",
    "VirtualGraphMode",
    "WeightDecayMode",
]
