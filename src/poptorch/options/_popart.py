"""Names of PopART's session options, checked when a model is compiled, and the log of what was chosen.

In: `Options.toDict()`. Out: one debug line a value, or `poptorch.Error` for a name or a type that PopTorch refuses.
There is no PopART below: a known name is accepted, and what it does here stands in `_effects`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import torch

from poptorch._logging import logger
from poptorch.errors import createPoptorchError

SCALARS = frozenset(
    """
    accumulateOuterFragmentSettings.schedule accumulationAndReplicationReductionType accumulationFactor aliasZeroCopy
    autoRecomputation autodiffSettings.stitchStrategy automaticLossScalingSettings.binEdgeLocation
    automaticLossScalingSettings.enabled automaticLossScalingSettings.gradientTensorTrackingMethod
    automaticLossScalingSettings.thresholdUpperCountProportion automaticLossScalingSettings.updatePeriod
    batchSerializationSettings.batchSchedule batchSerializationSettings.concatOnExecutionPhaseChange
    batchSerializationSettings.concatOnPipelineStageChange batchSerializationSettings.concatOnVirtualGraphChange
    batchSerializationSettings.factor batchSerializationSettings.method batchSerializationSettings.transformContext
    cachePath compilationProgressTotal compileEngine constantWeights customCodeletCompileFlags decomposeGradSum
    defaultBufferingDepth defaultPrefetchBufferingDepth delayVarUpdates disableGradAccumulationTensorStreams
    disableOptimizerStateTensorStreams dotOpNames enableDistributedReplicatedGraphs enableEngineCaching
    enableExplicitIR enableExplicitMainLoops enableFloatingPointChecks enableFullyConnectedPass
    enableGradientAccumulation enableInplaceAmbiguityChecking enableLoadAndOffloadRNGState enableMergeExchange
    enableNonStableSoftmax enableOutlining enableOutliningCopyCostPruning enablePipelining enablePrefetchDatastreams
    enableReplicatedGraphs enableSerializedMatmuls enableStableNorm enableStochasticRounding
    enableSupportedDataTypeCasting ensureFp32LossScaleTensor executionPhaseSettings.phases
    executionPhaseSettings.stages explicitRecomputation exportPoplarComputationGraph exportPoplarVertexGraph
    finalDotOp firstDotOp globalReplicaOffset globalReplicationFactor groupHostSync groupNormStridedChannelGrouping
    instrumentWithHardwareCycleCounter kahnTieBreaker logDir looseThresholdAtPeak
    meanAccumulationAndReplicationReductionStrategy mergeVarUpdate mergeVarUpdateMemThreshold numIOTiles
    opxAliasChecking opxModifyChecking outlineSequenceBreakCost outlineThreshold partialsTypeMatMuls
    rearrangeAnchorsOnHost rearrangeStreamsOnHost replicatedCollectivesSettings.mergeAllReduceCollectives
    replicatedCollectivesSettings.prepareScheduleForMergingCollectives saveInitializersToFile
    scheduleNonWeightUpdateGradientConsumersEarly separateCallOpPdfs serializedPoprithmsShiftGraphsDir
    strictOpVersions subgraphCopyingStrategy swapLimitScheduler syntheticDataMode timeLimitScheduler
    transitiveClosureOptimizationThreshold useHostCopyOps virtualGraphMode
    """.split()  # noqa: SIM905
)
LISTS = frozenset(
    """
    accumulateOuterFragmentSettings.excludedVirtualGraphs customCodelets dotChecks hardwareInstrumentations
    updatableNamedBuffers
    """.split()  # noqa: SIM905
)
TABLES = frozenset(
    "convolutionOptions engineOptions gclOptions lstmOptions matmulOptions reportOptions".split()  # noqa: SIM905
)


def check_options(values: Mapping[str, Any]) -> None:
    """Log every value; refuse what PopTorch would refuse."""
    for name, value in values.items():
        if name == "popart":
            for key, chosen in value.items():
                _check_popart_option(key, chosen)
        elif name == "partials_type":
            word = "half" if value is torch.half else "float"
            logger.debug("poptorch.Options set partialsTypeMatMuls to value %s", word)
            logger.debug("poptorch.Options set convolutionOptions[partialsType] to %s", word)
        elif isinstance(value, bool | int | float | str):
            logger.debug("poptorch.Options set %s to value %s", name, _show(value))


def _check_popart_option(name: str, value: Any) -> None:
    if name not in SCALARS | LISTS | TABLES:
        raise createPoptorchError(
            f"Unknown PopART option {name} (value {value!r}): correct the name given to Options._Popart.set()."
        )
    if name in TABLES and isinstance(value, Mapping):
        for key, chosen in value.items():
            logger.debug("poptorch.Options set %s[%s] to %s", name, key, chosen)
    elif name in LISTS and isinstance(value, list | tuple | set | frozenset):
        for chosen in sorted(value, key=str) if isinstance(value, set | frozenset) else value:
            logger.debug("poptorch.Options added %s to %s", chosen, name)
    elif name in SCALARS and isinstance(value, bool | int | float | str):
        logger.debug("poptorch.Options set %s to value %s", name, _show(value))
    else:
        raise createPoptorchError(
            f"Unknown value type {type(value)} for option {name}: options hold numbers, booleans and text, "
            f"or lists and tables of these where PopART has them."
        )


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, Enum) and isinstance(value, int) else str(value)
