"""Enumerations of session options: how a graph is cut, ordered, merged and watched.

In: nothing. Out: names and numbers of PopART 3.4. Where its C++ says `None`, Python has another name.
"""

from __future__ import annotations

from popart._enumerations.base import Enumeration


class AccumulateOuterFragmentSchedule(Enumeration):
    """How the ops of an update are ordered over IPUs."""

    Scheduler = 0
    Serial = 1
    OverlapCycleOptimized = 2
    OverlapMemoryOptimized = 3


class AutodiffStitchStrategy(Enumeration):
    """Where the backward graph gets what only the forward graph has."""

    RecomputeMinimal = 0
    RecomputeAllNonInputs = 1
    AddFwdOutputs = 2
    SafeAddFwdOutputs = 3


class BatchSerializationBatchSchedule(Enumeration):
    """How the parts of a serialised batch are ordered."""

    Scheduler = 0
    Isomorphic = 1
    OverlapOnIo = 2
    OverlapOnCompute = 3


class BatchSerializationMethod(Enumeration):
    """How a batch is serialised."""

    UnrollDynamic = 0
    UnrollStatic = 1
    Loop = 2


class BatchSerializationTransformContext(Enumeration):
    """Which pass a batch is serialised in; the two long names are older ones for the same."""

    Fwd = 0
    Bwd = 1
    Forward = 0
    Backward = 1


class ExecutionPhaseIOSchedule(Enumeration):
    """When tensors of a phase are loaded."""

    Preload = 0
    OnDemand = 1


class ExecutionPhaseSchedule(Enumeration):
    """How the ops of a phase are ordered."""

    Interleaving = 0
    Batch = 1
    BatchClusteredIO = 2


class GradientTensorTrackingMethod(Enumeration):
    """Which gradients automatic loss scaling looks at."""

    AllNonViewChangingGradientTensors = 0
    ConvAndMatmulGradients = 1
    GradientsOfUserSpecifiedTensors = 2


class Instrumentation(Enumeration):
    """What the cycle counter measures."""

    Outer = 0
    Inner = 1


class IrSerializationFormat(Enumeration):
    """How a graph is written."""

    JSON = 0


class MergeVarUpdateType(Enumeration):
    """Which updates of variables become one."""

    Off = 0
    All = 1
    AutoLoose = 2
    AutoTight = 3


class PatternsLevel(Enumeration):
    """How many of the graph's rewriting rules are on."""

    NoPatterns = 0
    Minimal = 1
    Default = 2
    All = 3


class RecomputationType(Enumeration):
    """Which activations backward makes again."""

    NoRecompute = 0
    Standard = 1
    NormOnly = 2
    Pipeline = 3
    RecomputeAll = 4


class RecomputeType(Enumeration):
    """Whether one op is made again in backward."""

    Undefined = 0
    Checkpoint = 1
    Recompute = 2
    Recomputed = 3


class SubgraphCopyingStrategy(Enumeration):
    """When a subgraph's inputs and outputs are copied."""

    OnEnterAndExit = 0
    JustInTime = 1


class SyntheticDataMode(Enumeration):
    """What inputs hold when the host sends none."""

    Off = 0
    Zeros = 1
    RandomNormal = 2
    RandomUniform = 3


class VirtualGraphMode(Enumeration):
    """Who says which IPU an op is on."""

    Off = 0
    Manual = 1
    Auto = 2
    ExecutionPhases = 3
