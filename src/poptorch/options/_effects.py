"""What each option does here: one row a setter.

`acts` changes the run, `plan` the modelled machine only, `none` nothing (and why); `missing` is stored, and would
change results on an IPU, but does not yet do so here: the user is told once.
"""

from __future__ import annotations

from enum import StrEnum

from poptorch._logging import warn_once


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
    "broadcastBuffers": (ACTS, "False: each replica keeps buffers of its own"),
    "outputMode": (ACTS, "which results come back"),
    "anchorTensor": (MISSING, "tensors inside the graph cannot be read back yet; return them from forward instead"),
    "randomSeed": (ACTS, "seeds the program's random numbers and torch.manual_seed"),
    "connectionType": (ACTS, "when the executor attaches; Never compiles only"),
    "syncPattern": (NONE, "all programs are planned with full synchronisation"),
    "useIpuId": (NONE, "there is no device to choose"),
    "useIpuModel": (NONE, "every run is modelled already"),
    "useOfflineIpuTarget": (ACTS, "compiles without running"),
    "autoRoundNumIPUs": (NONE, "no device is reserved, so no count is rounded"),
    "setExecutionStrategy": (NONE, "results do not depend on it; programs are planned on one IPU a replica so far"),
    "setAvailableMemoryProportion": (PLAN, "the value of IPU0: programs are planned on one IPU a replica so far"),
    "enableExecutableCaching": (NONE, "compiling takes seconds; nothing is cached"),
    "enableProfiling": (ACTS, "writes profile.pop of the modelled run"),
    "modelName": (ACTS, "names the program and the directory of its profile"),
    "logDir": (NONE, "there are no log files of a lower layer"),
    "maxRepeatLogs": (NONE, "there are no log files of a lower layer"),
    "logCycleCount": (ACTS, "cycleCount() returns the modelled cycles of one call"),
    "enableStableNorm": (NONE, "PyTorch's norms are the stable ones"),
    "enableSyntheticData": (MISSING, "the inputs that you pass are used, and the results are real"),
    "showCompilationProgressBar": (ACTS, "the bar on stderr"),
    "relaxOptimizerAttributesChecks": (NONE, "unexpected attributes of an optimizer are not reported yet"),
    "sourceLocationExcludes": (NONE, "source lines are those outside torch and openipu"),
    "appendToLocationExcludes": (NONE, "source lines are those outside torch and openipu"),
    "disableModuleNamescope": (NONE, "profiles always carry the module path"),
    "updatableNamedBuffers": (ACTS, "which buffers copyNamedBuffersToDevice uploads"),
    "Jit.traceModel": (NONE, "there is one way to trace"),
    "Precision.halfFloatCasting": (NONE, "deprecated: operands are promoted as PyTorch does"),
    "Precision.runningStatisticsAlwaysFloat": (NONE, "deprecated: running statistics keep the type of the module"),
    "Precision.enableFloatingPointExceptions": (MISSING, "invalid arithmetic gives inf or nan as in PyTorch, no error"),
    "Precision.enableStochasticRounding": (MISSING, "half results are rounded to nearest"),
    "Precision.setPartialsType": (PLAN, "sums are always accumulated in float32 here, which is at least as exact"),
    "Training.gradientAccumulation": (ACTS, "micro-batches in one weight update"),
    "Training.accumulationAndReplicationReductionType": (ACTS, "mean or sum of gradients"),
    "Training.setMeanAccumulationAndReplicationReductionStrategy": (
        NONE,
        "gradients are summed in float32, then divided",
    ),
    "Training.setAutomaticLossScaling": (MISSING, "the loss is not scaled; half gradients may underflow"),
    "Training.setConvolutionDithering": (NONE, "where a convolution starts does not change results"),
    "TensorLocations.numIOTiles": (PLAN, "tiles that are set aside for host transfers"),
    "TensorLocations.setActivationLocation": (NONE, "programs are planned with all tensors on chip so far"),
    "TensorLocations.setWeightLocation": (NONE, "programs are planned with all tensors on chip so far"),
    "TensorLocations.setOptimizerLocation": (NONE, "programs are planned with all tensors on chip so far"),
    "TensorLocations.setAccumulatorLocation": (NONE, "programs are planned with all tensors on chip so far"),
    "Distributed.disable": (ACTS, "one process"),
    "Distributed.setEnvVarNames": (ACTS, "where process number and count are read"),
    "Distributed.configureProcessId": (ACTS, "partitions data loaders; models of several processes are refused so far"),
    "_Popart.set": (NONE, "there is no PopART below; only engineOptions are read"),
    "_Popart.setEngineOptions": (ACTS, "autoReport.all and autoReport.directory write a profile"),
    "_Popart.setPatterns": (NONE, "there is no PopART below"),
}


def tell_missing(setter: str) -> None:
    """Say once that this setter was stored but does not do here what it does on an IPU."""
    effect, note = TABLE[setter]
    assert effect is Effect.MISSING, setter
    warn_once(f"poptorch.Options.{setter} has no effect here yet: {note}.")
