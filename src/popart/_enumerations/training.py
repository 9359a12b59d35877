"""Enumerations of optimizers and of reductions.

In: nothing. Out: names and numbers of PopART 3.4.
"""

from __future__ import annotations

from popart._enumerations.base import Enumeration


class AdamMode(Enumeration):
    """Members of the Adam family."""

    Adam = 0
    AdamNoBias = 1
    AdaMax = 2
    Lamb = 3
    LambNoBias = 4


class AdaptiveMode(Enumeration):
    """Members of the RMSProp family."""

    AdaGrad = 0
    RMSProp = 1
    CenteredRMSProp = 2
    AdaDelta = 3


class MeanReductionStrategy(Enumeration):
    """When a mean over accumulation steps is divided."""

    Running = 0
    Post = 1


class ReductionType(Enumeration):
    """How values are combined."""

    Sum = 0
    Mean = 1
    NoReduction = 2


class ScatterReduction(Enumeration):
    """How a scatter combines values of one place."""

    Sum = 0
    Max = 1
    Min = 2
    Mul = 3
    NoReduction = 4


class SGDAccumulatorAndMomentum(Enumeration):
    """Whether gradients and momentum share a tensor."""

    Combined = 0
    Separate = 1


class WeightDecayMode(Enumeration):
    """Whether weights decay by themselves or through the gradient."""

    Decay = 0
    L2Regularization = 1
