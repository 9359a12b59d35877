"""PopART on openipu: ONNX graphs built, run and trained on any machine. Unofficial.

In: scripts that `import popart`. Out: the builder, sessions, optimizers, devices and enumerations of PopART 3.4 on
openipu's pipeline. Enumerations are there at once; all else is loaded when it is asked for, since it needs the packages
onnx and torch, which the users of enumerations may not have.
"""

import importlib
import sys
from typing import Any

from popart._enumerations.devices import DeviceConnectionType, DeviceSelectionCriterion, DeviceType, SyncPattern
from popart._enumerations.sessions import (
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
from popart._enumerations.tensors import (
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
from popart._enumerations.training import (
    AdamMode,
    AdaptiveMode,
    MeanReductionStrategy,
    ReductionType,
    ScatterReduction,
    SGDAccumulatorAndMomentum,
    WeightDecayMode,
)

__version__ = "3.4.0"  # the version of the interface that these names are of

defaultAiOnnxOpset = 10  # noqa: N816 (PopART's own names)
defaultAiOnnxMlOpset = 1  # noqa: N816
defaultAiGraphcoreOpset = 1  # noqa: N816

_LOADED_WHEN_ASKED = {
    "popart.builder": ("Builder",),
    "popart.session": ("InferenceSession", "TrainingSession"),
    "popart.tensorinfo": ("TensorInfo",),
    "popart._build.opsets": ("AiGraphcoreOpset1",),
    "popart._debug": ("DebugContext", "DebugInfo", "closePoplarDebugInfo", "initializePoplarDebugInfo"),
    "popart._build.settings": ("CommGroup", "InputSettings", "VariableSettings"),
    "popart._dataflow": ("AnchorReturnType", "DataFlow", "InputShapeInfo"),
    "popart._device_manager": ("DeviceInfo", "DeviceManager"),
    "popart._exceptions": (
        *("popart_exception", "popart_internal_exception", "popart_runtime_error", "poplibs_exception"),
        *("poplar_exception", "poplar_runtime_error", "poplar_application_runtime_error"),
        *("poplar_system_runtime_error", "poplar_recoverable_runtime_error", "poplar_unrecoverable_runtime_error"),
        *("poplar_unknown_runtime_error", "RecoveryAction", "OutOfMemoryException"),
    ),
    "popart._logging": ("Logger", "getLogger"),
    "popart._option_groups": (
        *("AccumulateOuterFragmentSettings", "AutodiffSettings", "AutomaticLossScalingSettings"),
        *("BatchSerializationSettings", "ExecutionPhaseSettings", "ExperimentalSettings"),
        *("ReplicatedCollectivesSettings", "TensorLocation", "TensorLocationSettings"),
    ),
    "popart._numerics": ("NumericsReport",),
    "popart._options": ("SessionOptions",),
    "popart._patterns": ("Patterns",),
    "popart._stepio": ("IStepIO", "PyStepIO", "PyStepIOCallback", "PyWeightsIO"),
    "popart._supported": (
        *("getSupportedOperations", "getSupportedOperationsDefinition", "getUnsupportedOperations"),
        *("OperatorIdentifier", "packageHash", "versionNumber", "versionString", "getTensorInfo"),
        *("syncPatternFromString", "syncPatternToString"),
    ),
    "popart._transformer": ("GraphTransformer",),
    "popart.optimizers": (
        *("SGD", "ConstSGD", "Adam", "Adaptive", "ClipNormSettings", "Optimizer", "OptimizerValue"),
        "OptimizerValueMap",
    ),
}
_MODULE_OF = {name: module for module, names in _LOADED_WHEN_ASKED.items() for name in names}
_SUBMODULES = ("builder", "optimizers", "session", "tensorinfo")
_ADVICE = {
    "DotCheck": 'PopART removed it in 2.4. Give option dotChecks a list of words, such as ["Fwd0", "Final"].',
}


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, *_SUBMODULES})


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is not None:
        found = getattr(importlib.import_module(module), name)
    elif name in _SUBMODULES:
        found = importlib.import_module(f"popart.{name}")
    elif name.startswith("reserved") and name.endswith("Prefix"):
        from popart._prefixes import PREFIXES

        if name not in PREFIXES:
            raise AttributeError(f"module 'popart' has no attribute {name!r}")
        found = PREFIXES[name]
    elif name.startswith("AiOnnxOpset") and name.removeprefix("AiOnnxOpset").isdigit():
        from popart._build.opsets import AI_ONNX

        if int(name.removeprefix("AiOnnxOpset")) not in AI_ONNX:
            raise AttributeError(f"module 'popart' has no attribute {name!r}")
        found = AI_ONNX[int(name.removeprefix("AiOnnxOpset"))]
    else:
        advice = f" {_ADVICE[name]}" if name in _ADVICE else ""
        raise AttributeError(f"module 'popart' has no attribute {name!r}.{advice}".rstrip("."))
    globals()[name] = found
    return found


sys.modules.setdefault("popart_core", sys.modules[__name__])  # programs take enumerations from the compiled module

__all__ = [
    "SGD",
    "AccumulateOuterFragmentSchedule",
    "AccumulateOuterFragmentSettings",
    "Adam",
    "AdamMode",
    "Adaptive",
    "AdaptiveMode",
    "AiGraphcoreOpset1",
    "AnchorReturnType",
    "AnchorReturnTypeId",
    "AutodiffSettings",
    "AutodiffStitchStrategy",
    "AutomaticLossScalingSettings",
    "BatchSerializationBatchSchedule",
    "BatchSerializationMethod",
    "BatchSerializationSettings",
    "BatchSerializationTransformContext",
    "Builder",
    "ClipNormSettings",
    "CommGroup",
    "CommGroupType",
    "ConstSGD",
    "DataFlow",
    "DataType",
    "DebugContext",
    "DebugInfo",
    "DeviceConnectionType",
    "DeviceInfo",
    "DeviceManager",
    "DeviceSelectionCriterion",
    "DeviceType",
    "ExchangeStrategy",
    "ExecutionPhaseIOSchedule",
    "ExecutionPhaseSchedule",
    "ExecutionPhaseSettings",
    "ExperimentalSettings",
    "GradientTensorTrackingMethod",
    "GraphTransformer",
    "IStepIO",
    "InferenceSession",
    "InitType",
    "InputSettings",
    "InputShapeInfo",
    "Instrumentation",
    "IrSerializationFormat",
    "Logger",
    "MeanReductionStrategy",
    "MergeVarUpdateType",
    "NumericsReport",
    "OperatorIdentifier",
    "Optimizer",
    "OptimizerValue",
    "OptimizerValueMap",
    "OutOfMemoryException",
    "Patterns",
    "PatternsLevel",
    "PyStepIO",
    "PyStepIOCallback",
    "PyWeightsIO",
    "RecomputationType",
    "RecomputeType",
    "RecoveryAction",
    "ReductionType",
    "ReplicatedCollectivesSettings",
    "ReplicatedStreamMode",
    "ReplicatedTensorSharding",
    "SGDAccumulatorAndMomentum",
    "ScatterReduction",
    "SessionOptions",
    "SubgraphCopyingStrategy",
    "SyncPattern",
    "SyntheticDataMode",
    "TensorInfo",
    "TensorLocation",
    "TensorLocationSettings",
    "TensorRemapType",
    "TensorStorage",
    "TileSet",
    "TrainingSession",
    "VariableRetrievalMode",
    "VariableSettings",
    "VirtualGraphMode",
    "WeightDecayMode",
    "getLogger",
    "getSupportedOperations",
    "getSupportedOperationsDefinition",
    "getTensorInfo",
    "getUnsupportedOperations",
    "packageHash",
    "popart_exception",
    "popart_internal_exception",
    "popart_runtime_error",
    "poplar_application_runtime_error",
    "poplar_exception",
    "poplar_recoverable_runtime_error",
    "poplar_runtime_error",
    "poplar_system_runtime_error",
    "poplar_unknown_runtime_error",
    "poplar_unrecoverable_runtime_error",
    "poplibs_exception",
    "syncPatternFromString",
    "syncPatternToString",
    "versionNumber",
    "versionString",
]
