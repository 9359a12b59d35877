"""`popart.SessionOptions`: every attribute with its default and what it does here.

In: values by attribute. Out: the same, for `_translation`. An attribute that PopART does not have raises
AttributeError. `EFFECTS` says of each what it changes: results and plan ("acts"), the plan alone ("plan"), or nothing,
with the reason.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from popart._enumerations.sessions import (
    Instrumentation,
    MergeVarUpdateType,
    RecomputationType,
    SubgraphCopyingStrategy,
    SyntheticDataMode,
    VirtualGraphMode,
)
from popart._enumerations.training import MeanReductionStrategy, ReductionType
from popart._exceptions import popart_exception
from popart._option_groups import (
    AccumulateOuterFragmentSettings,
    AutodiffSettings,
    AutomaticLossScalingSettings,
    BatchSerializationSettings,
    ExecutionPhaseSettings,
    ExperimentalSettings,
    ReplicatedCollectivesSettings,
    TensorLocationSettings,
)

ACTS, PLAN, NONE = "acts", "plan", "none"


class Effect(NamedTuple):
    """One option."""

    default: Any  # a value, or a class to make one of
    effect: str
    reason: str


_LAYOUT = "openipu plans code and memory by its own passes"
_LOWER = "there is no layer of Poplar below that could take it"
_SCHEDULE = "openipu orders ops by its own planner"
_DRAWING = "no drawings of PopART's IR are made; `openipu report` shows the graph"
_STREAMS = "data of this host needs no buffers between streams"

EFFECTS: dict[str, Effect] = {
    "accumulateOuterFragmentSettings": Effect(AccumulateOuterFragmentSettings, NONE, _SCHEDULE),
    "accumulationAndReplicationReductionType": Effect(ReductionType.Sum, ACTS, "sum or mean of gradients"),
    "accumulationFactor": Effect(1, ACTS, "micro-batches in one weight update"),
    "accumulatorTensorLocationSettings": Effect(TensorLocationSettings, PLAN, "where accumulators are kept"),
    "activationTensorLocationSettings": Effect(TensorLocationSettings, PLAN, "where activations are kept"),
    "aliasZeroCopy": Effect(False, NONE, _LAYOUT),
    "autoRecomputation": Effect(RecomputationType.NoRecompute, PLAN, "which activations are computed again"),
    "autodiffSettings": Effect(AutodiffSettings, NONE, "gradients are those of PyTorch's autograd"),
    "automaticLossScalingSettings": Effect(AutomaticLossScalingSettings, ACTS, "the loss scale follows the gradients"),
    "batchSerializationSettings": Effect(BatchSerializationSettings, NONE, _SCHEDULE),
    "bufferingDepthMap": Effect(dict, NONE, _STREAMS),
    "cachePath": Effect("session_cache", ACTS, "where compiled programs are kept"),
    "compileEngine": Effect(True, ACTS, "False: the program is planned, and cannot run"),
    "constantWeights": Effect(True, ACTS, "inference: writeWeights is refused"),
    "convolutionOptions": Effect(dict, NONE, "convolutions are planned by openipu's own planner"),
    "createImplicitPipeliningFwdOnlyProgram": Effect(
        False, ACTS, 'run("implicitPipeliningFwdOnly", …) only runs forward'
    ),
    "customCodeletCompileFlags": Effect("", NONE, "no C++ codelets are compiled"),
    "customCodelets": Effect(list, NONE, "no C++ codelets are compiled; register custom ops in Python"),
    "decomposeGradSum": Effect(False, NONE, _LAYOUT),
    "defaultBufferingDepth": Effect(1, NONE, _STREAMS),
    "defaultPrefetchBufferingDepth": Effect(1, NONE, "old name of defaultBufferingDepth"),
    "delayVarUpdates": Effect(True, NONE, _SCHEDULE),
    "disableGradAccumulationTensorStreams": Effect(False, ACTS, "accumulators do not come back to the host"),
    "disableOptimizerStateTensorStreams": Effect(False, ACTS, "optimizer state does not come back to the host"),
    "dotChecks": Effect(set, ACTS, "the graph is drawn for each, as <check>.dot in logDir; all have the same ops"),
    "dotOpNames": Effect(False, ACTS, "drawings have the names of ops"),
    "enableConstantFoldingOfMultipleConsumers": Effect(True, NONE, "constants are always computed on the host"),
    "enableDistributedReplicatedGraphs": Effect(False, ACTS, "processes of one job share every update"),
    "enableEfficientOverlapIOTopoCons": Effect(False, NONE, _SCHEDULE),
    "enableEngineCaching": Effect(False, ACTS, "compiled programs are kept and found again"),
    "enableExplicitMainLoops": Effect(False, NONE, "loops over batches are the executable's own"),
    "enableFloatingPointChecks": Effect(False, ACTS, "a run stops where arithmetic makes an infinity or a NaN"),
    "enableFullyConnectedPass": Effect(True, NONE, "products are planned by openipu's own planner"),
    "enableGradientAccumulation": Effect(False, ACTS, "allows an accumulationFactor of more than 1"),
    "enableInplaceAmbiguityChecking": Effect(False, NONE, "graphs are functional: no order is ambiguous"),
    "enableLoadAndOffloadRNGState": Effect(False, ACTS, "allows getRNGState and setRNGState"),
    "enableMergeExchange": Effect(True, NONE, _LAYOUT),
    "enableNonStableSoftmax": Effect(False, NONE, "PyTorch's softmax is the stable one"),
    "enableOutlining": Effect(True, NONE, "equal ops share their code in every plan"),
    "enableOutliningCopyCostPruning": Effect(True, NONE, _LAYOUT),
    "enablePipelining": Effect(False, ACTS, "stages take turns; without accumulation, weights are delayed"),
    "enablePrefetchDatastreams": Effect(True, NONE, _STREAMS),
    "enableReplicatedGraphs": Effect(False, ACTS, "allows a replicatedGraphCount of more than 1"),
    "enableSerializedMatmuls": Effect(True, NONE, _LAYOUT),
    "enableStableNorm": Effect(False, NONE, "PyTorch's norms are the stable ones"),
    "enableStochasticRounding": Effect(False, ACTS, "half results are rounded stochastically"),
    "enableSupportedDataTypeCasting": Effect(True, ACTS, "False: 64-bit tensors are refused"),
    "enableVariablesCaching": Effect(True, NONE, "weights are never part of what is kept"),
    "engineOptions": Effect(dict, ACTS, "reports and floating-point flags; unknown names are refused"),
    "ensureFp32LossScaleTensor": Effect(False, NONE, "the loss scale is always held in float32"),
    "executionPhaseSettings": Effect(ExecutionPhaseSettings, PLAN, "phases one after the other, or two at a time"),
    "experimentalSettings": Effect(ExperimentalSettings, NONE, "transforms of PopART's IR have nothing to work on"),
    "explicitRecomputation": Effect(False, NONE, "recomputation is part of the plan"),
    "exportPoplarComputationGraph": Effect(False, NONE, _DRAWING),
    "exportPoplarVertexGraph": Effect(False, NONE, _DRAWING),
    "finalDotOp": Effect(10000, ACTS, "the first op that drawings leave out"),
    "firstDotOp": Effect(0, ACTS, "the first op of drawings"),
    "gclOptions": Effect(dict, NONE, "collectives are planned by openipu's own planner"),
    "globalReplicaOffset": Effect(0, ACTS, "which replicas of a job are this process's"),
    "globalReplicationFactor": Effect(1, ACTS, "replicas of all processes of a job"),
    "groupHostSync": Effect(False, NONE, _SCHEDULE),
    "groupNormStridedChannelGrouping": Effect(False, ACTS, "groups of every so many-th channel"),
    "hardwareInstrumentations": Effect(lambda: {Instrumentation.Outer}, NONE, "cycles are modelled"),
    "instrumentWithHardwareCycleCounter": Effect(False, ACTS, "allows getCycleCount, which is modelled"),
    "kahnTieBreaker": Effect("greedy", NONE, _SCHEDULE),
    "logDir": Effect("", ACTS, "where drawings go"),
    "looseThresholdAtPeak": Effect(8000, NONE, _SCHEDULE),
    "lstmOptions": Effect(dict, NONE, "recurrent layers are planned by openipu's own planner"),
    "matmulOptions": Effect(dict, NONE, "products are planned by openipu's own planner"),
    "meanAccumulationAndReplicationReductionStrategy": Effect(MeanReductionStrategy.Post, ACTS, "when means are taken"),
    "mergeVarUpdate": Effect(MergeVarUpdateType.Off, NONE, "updates of equal parameters always run as one"),
    "mergeVarUpdateMemThreshold": Effect(1000000, NONE, "updates of equal parameters always run as one"),
    "numIOTiles": Effect(0, PLAN, "tiles that only move data"),
    "optimizerStateTensorLocationSettings": Effect(TensorLocationSettings, PLAN, "where optimizer state is kept"),
    "opxAliasChecking": Effect(False, NONE, _LOWER),
    "opxModifyChecking": Effect(False, NONE, _LOWER),
    "outlineSequenceBreakCost": Effect(10000.0, NONE, _LAYOUT),
    "outlineThreshold": Effect(1.0, NONE, _LAYOUT),
    "partialsTypeMatMuls": Effect("", ACTS, '"half": sums of half products are rounded to half'),
    "prefetchBufferingDepthMap": Effect(dict, NONE, "old name of bufferingDepthMap"),
    "rearrangeAnchorsOnHost": Effect(True, NONE, _STREAMS),
    "rearrangeStreamsOnHost": Effect(False, NONE, _STREAMS),
    "replicatedCollectivesSettings": Effect(ReplicatedCollectivesSettings, NONE, _SCHEDULE),
    "replicatedGraphCount": Effect(1, ACTS, "data-parallel replicas"),
    "reportOptions": Effect(dict, NONE, "reports show everything"),
    "scheduleNonWeightUpdateGradientConsumersEarly": Effect(False, NONE, _SCHEDULE),
    "separateCallOpPdfs": Effect(True, NONE, _DRAWING),
    "serializedPoprithmsAnnealGraphsDir": Effect("", NONE, _SCHEDULE),
    "serializedPoprithmsShiftGraphsDir": Effect("", NONE, _SCHEDULE),
    "stashAllTensorsInferencePipeline": Effect(False, NONE, _LAYOUT),
    "strictOpVersions": Effect(True, NONE, "a node is read by the rules of its model's operator set"),
    "subgraphCopyingStrategy": Effect(SubgraphCopyingStrategy.OnEnterAndExit, NONE, _SCHEDULE),
    "swapLimitScheduler": Effect(1000000000, NONE, _SCHEDULE),
    "syntheticDataMode": Effect(SyntheticDataMode.Off, ACTS, "inputs of the host are ignored"),
    "tensorLocationSettingsOverride": Effect(dict, NONE, "locations are chosen by kind of tensor"),
    "throwIfLog2ScaleTensorNotInRange": Effect(True, NONE, "float8 tensors are not part of sessions"),
    "timeLimitScheduler": Effect(1e9, NONE, _SCHEDULE),
    "timePartitionLoggerThresholdPercentage": Effect(1.0, NONE, "`openipu run --trace` shows where time goes"),
    "transitiveClosureOptimizationThreshold": Effect(100000, NONE, _SCHEDULE),
    "updatableNamedBuffers": Effect(list, NONE, "any weight may be written by writeWeights"),
    "useHostCopyOps": Effect(False, NONE, "host transfers are steps of every plan"),
    "useLoopCandidateCreator": Effect(False, NONE, _LAYOUT),
    "virtualGraphMode": Effect(VirtualGraphMode.Off, PLAN, "which IPU each node is on"),
    "virtualGraphSplitRatios": Effect(list, NONE, "automatic splits are by modelled cycles: `openipu auto`"),
    "weightTensorLocationSettings": Effect(TensorLocationSettings, PLAN, "where weights are kept"),
    "_enableRngStateManagement": Effect(False, ACTS, "allows getRNGState and setRNGState"),
}
_OLD_NAMES = {
    "defaultPrefetchBufferingDepth": "defaultBufferingDepth",
    "prefetchBufferingDepthMap": "bufferingDepthMap",
}


class SessionOptions:
    """Options of a session. Attributes that PopART does not have raise AttributeError."""

    def __init__(self) -> None:
        for name, entry in EFFECTS.items():
            if name not in _OLD_NAMES:
                object.__setattr__(self, name, entry.default() if callable(entry.default) else entry.default)

    def __getattr__(self, name: str) -> Any:
        if name in _OLD_NAMES:
            return getattr(self, _OLD_NAMES[name])
        raise AttributeError(f"'SessionOptions' object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OLD_NAMES:
            sys.stderr.write(
                f"[warning] The session option {name} has been deprecated and will be removed: use "
                f"{_OLD_NAMES[name]} instead.\n"
            )
            name = _OLD_NAMES[name]
        entry = EFFECTS.get(name)
        if entry is None:
            raise AttributeError(f"'SessionOptions' object has no attribute {name!r}")
        object.__setattr__(self, name, _fit(name, entry.default, value))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *EFFECTS})

    def enableExplicitIR(self, enable: bool) -> None:
        """Turn three options on or off together: host copies, main loops and recomputation as ops."""
        self.useHostCopyOps = self.enableExplicitMainLoops = self.explicitRecomputation = enable

    def getGlobalReplicationFactor(self) -> int:
        """Replicas of all processes of a job."""
        if self.enableDistributedReplicatedGraphs:
            return int(self.globalReplicationFactor)
        return int(self.replicatedGraphCount) if self.enableReplicatedGraphs else 1

    def _copy(self) -> SessionOptions:
        """The options as they are now: a session keeps what it was made with."""
        found = SessionOptions()
        for name in EFFECTS:
            if name not in _OLD_NAMES:
                value = getattr(self, name)
                object.__setattr__(found, name, type(value)(value) if isinstance(value, dict | list | set) else value)
        return found


def _fit(name: str, default: Any, value: Any) -> Any:
    """Refuse a value of another kind than the default's, as PopART's typed attributes do."""
    if isinstance(default, bool):
        if not isinstance(value, bool | int):
            raise TypeError(f"SessionOptions.{name} is True or False, not {value!r}.")
        return bool(value)
    if isinstance(default, int) and not isinstance(default, bool) and type(default) is not int:
        if not isinstance(value, type(default)):
            raise TypeError(f"SessionOptions.{name} is a {type(default).__name__}, not {value!r}.")
        return value
    if type(default) is int:
        if isinstance(value, float) or not hasattr(value, "__index__"):
            raise TypeError(f"SessionOptions.{name} is a whole number, not {value!r}.")
        return int(value)
    if isinstance(default, str) and not isinstance(value, str):
        raise TypeError(f"SessionOptions.{name} is a text, not {value!r}.")
    return value


def check_training(options: SessionOptions, training: bool) -> None:
    """Refuse options that contradict each other."""
    if options.enableGradientAccumulation and not training:
        raise popart_exception("Gradient Accumulation only available when training.")
    if not options.enableGradientAccumulation and options.accumulationFactor > 1:
        raise popart_exception(
            "enableGradientAccumulation is false, but accumulationFactor > 1. Either enable gradient accumulation, or "
            "set the accumulation factor to 1."
        )
    if options.accumulationFactor < 1:
        raise popart_exception(f"accumulationFactor must be at least 1, and is {options.accumulationFactor}.")
    if options.enableReplicatedGraphs and options.replicatedGraphCount < 1:
        raise popart_exception(f"replicatedGraphCount must be at least 1, and is {options.replicatedGraphCount}.")
