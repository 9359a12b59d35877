"""What each option does here: one row per setter.

`acts` changes the run, `plan` the modelled machine only, `none` nothing (and why); `missing` is stored, and would
change results on an IPU, but does not yet do so here: the user is told once.
"""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """What a setter changes."""

    ACTS = "acts"
    PLAN = "plan"
    NONE = "none"
    MISSING = "missing"


ACTS, PLAN, NONE, MISSING = Effect.ACTS, Effect.PLAN, Effect.NONE, Effect.MISSING

TABLE: dict[str, tuple[Effect, str]] = {
    "deviceIterations": (ACTS, "iterations in one call"),
    "replicationFactor": (ACTS, "data-parallel replicas in one call"),
    "inputReplicaGrouping": (ACTS, "replicas of one group read the same input"),
    "broadcastBuffers": (
        ACTS,
        "False: each replica keeps buffers of its own; True: a buffer that forward writes is refused with several "
        "replicas, but for the statistics of batch norms, which each replica keeps and the host reads from replica 0",
    ),
    "outputMode": (ACTS, "which results come back"),
    "anchorTensor": (ACTS, "getAnchoredTensor() returns its value of the last call"),
    "randomSeed": (ACTS, "seeds the program's random numbers and torch.manual_seed"),
    "enableDeterminism": (ACTS, "the same bits in every run with the same seed; of openipu alone"),
    "connectionType": (ACTS, "when the executor attaches; Never compiles only"),
    "syncPattern": (NONE, "all programs are planned with full synchronisation"),
    "useIpuId": (ACTS, "two models cannot hold the same IPU: of one process, or of a pod that is set up"),
    "useIpuModel": (NONE, "every run is modelled already"),
    "useOfflineIpuTarget": (ACTS, "compiles without running, for a machine of that version"),
    "autoRoundNumIPUs": (ACTS, "with OPENIPU_REPORT_HARDWARE=1, IPUs are reserved in powers of two"),
    "setExecutionStrategy": (PLAN, "IPU and stage or phase of each op, and what a pipeline needs; results stay"),
    "setAvailableMemoryProportion": (PLAN, "memory that matrix products and convolutions may use, IPU by IPU"),
    "enableExecutableCaching": (ACTS, "one entry per program: the second start plans and compiles nothing"),
    "enableProfiling": (ACTS, "writes profile.pop of the modelled run"),
    "modelName": (ACTS, "names the program and the directory of its profile"),
    "logDir": (NONE, "there are no log files of a lower layer"),
    "maxRepeatLogs": (NONE, "there are no log files of a lower layer"),
    "logCycleCount": (ACTS, "cycleCount() returns the modelled cycles of one call"),
    "enableStableNorm": (NONE, "PyTorch's norms are the stable ones"),
    "enableSyntheticData": (
        ACTS,
        "nothing crosses the host link, in the plan as on an IPU; a call returns results of random inputs, which have "
        "the usual shapes and mean nothing, and no times",
    ),
    "showCompilationProgressBar": (ACTS, "the bar on stderr"),
    "relaxOptimizerAttributesChecks": (ACTS, "unexpected attributes of an optimizer are reported as debug messages"),
    "sourceLocationExcludes": (NONE, "source lines are those outside torch and openipu"),
    "appendToLocationExcludes": (NONE, "source lines are those outside torch and openipu"),
    "disableModuleNamescope": (NONE, "profiles always carry the module path"),
    "updatableNamedBuffers": (ACTS, "which buffers copyNamedBuffersToDevice uploads"),
    "Jit.traceModel": (NONE, "there is one way to trace"),
    "Precision.halfFloatCasting": (NONE, "deprecated: operands are promoted as PyTorch does"),
    "Precision.runningStatisticsAlwaysFloat": (NONE, "deprecated: running statistics keep the type of the module"),
    "Precision.enableFloatingPointExceptions": (
        ACTS,
        "a run stops at the first such op; the error names it, and the line",
    ),
    "Precision.enableStochasticRounding": (
        ACTS,
        "half results and half weights are rounded stochastically, from the seed",
    ),
    "Precision.setPartialsType": (
        ACTS,
        "with torch.half, sums of half products are rounded to half after each quarter",
    ),
    "Training.gradientAccumulation": (ACTS, "micro-batches in one weight update"),
    "Training.accumulationAndReplicationReductionType": (ACTS, "mean or sum of gradients"),
    "Training.setMeanAccumulationAndReplicationReductionStrategy": (
        NONE,
        "each gradient is scaled as it is added up in accum_type, which is the mean either way",
    ),
    "Training.setAutomaticLossScaling": (ACTS, "the loss scale follows the half gradients, from update to update"),
    "Training.setConvolutionDithering": (NONE, "where a convolution starts does not change results"),
    "TensorLocations.numIOTiles": (PLAN, "tiles that are set aside for host transfers"),
    "TensorLocations.setActivationLocation": (PLAN, "on or off the chip, whole or in shares"),
    "TensorLocations.setWeightLocation": (PLAN, "on or off the chip, whole or in shares"),
    "TensorLocations.setOptimizerLocation": (PLAN, "on or off the chip, whole or in shares"),
    "TensorLocations.setAccumulatorLocation": (PLAN, "on or off the chip, whole or in shares"),
    "Distributed.disable": (ACTS, "one process"),
    "Distributed.setEnvVarNames": (ACTS, "where process number and count are read"),
    "Distributed.configureProcessId": (ACTS, "partitions data loaders; training sums gradients over all processes"),
    "_Popart.set": (NONE, "there is no PopART below; POPART lists the keys that are read"),
    "_Popart.setEngineOptions": (ACTS, "autoReport.all and autoReport.directory write a profile"),
    "_Popart.setPatterns": (NONE, "there is no PopART below"),
}

POPART: dict[str, tuple[Effect, str]] = {  # keys of _Popart.set that are read here
    "syntheticDataMode": (ACTS, "as enableSyntheticData: 1 for zeros, 2 for a normal, 3 for a uniform distribution"),
    "autoRecomputation": (PLAN, "which activations are made again in backward"),
    "engineOptions": (
        ACTS,
        "autoReport.all and autoReport.directory write a profile; debug.nanOverflowMode says what half overflow gives",
    ),
    "automaticLossScalingSettings.enabled": (ACTS, "as Training.setAutomaticLossScaling"),
    "automaticLossScalingSettings.binEdgeLocation": (ACTS, "where large gradients begin, as a share of 65504"),
    "automaticLossScalingSettings.thresholdUpperCountProportion": (ACTS, "the share of large ones that is too much"),
    "automaticLossScalingSettings.updatePeriod": (ACTS, "updates from one change of the scale to the next"),
    "automaticLossScalingSettings.gradientTensorTrackingMethod": (ACTS, "0: all half gradients, 1: those of products"),
}
