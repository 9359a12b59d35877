"""PopLibs' layers: non-linearities, losses, pooling, norms, recurrent cells. Unofficial.

In: `poplar` graphs, tensors and sequences. Out: steps at the end of the sequence, and new tensors.
"""

from poplar import Graph
from poplin import createNormBeta, createNormGamma, createNormParams
from popnn import _flat, bn, ctc, ctc_infer, gn, gru, ln, lstm, pooling, rnn  # noqa: F401 (C++ calls _flat)
from popnn import instance as in_
from popnn._loss import (
    CROSS_ENTROPY_LOSS,
    SUM_SQUARED_LOSS,
    LossType,
    argMax,
    argMin,
    calcAccuracy,
    calcLoss,
    maxAndArgMax,
    minAndArgMin,
    topK,
)
from popnn._softmax import logSoftmax, logSoftmaxInPlace
from popnn._spatial import spatialSoftMax2D
from popnn.nonlinearity import (
    NonLinearityType,
    gelu,
    geluInPlace,
    nonLinearity,
    nonLinearityInPlace,
    nonLinearityInputGradient,
    relu,
    reluInPlace,
    sigmoid,
    sigmoidInPlace,
    softmax,
    softmaxInPlace,
    softmaxScaled,
    softmaxScaledInPlace,
    softmaxStable,
    softmaxStableInPlace,
    tanh,
    tanhInPlace,
)
from popnn.pooling import PoolingType


def addCodelets(graph: Graph) -> None:
    """Nothing to add: library functions are there as they are."""


__all__ = [
    "CROSS_ENTROPY_LOSS",
    "SUM_SQUARED_LOSS",
    "LossType",
    "NonLinearityType",
    "PoolingType",
    "addCodelets",
    "argMax",
    "argMin",
    "bn",
    "calcAccuracy",
    "calcLoss",
    "createNormBeta",
    "createNormGamma",
    "createNormParams",
    "ctc",
    "ctc_infer",
    "gelu",
    "geluInPlace",
    "gn",
    "gru",
    "in_",
    "ln",
    "logSoftmax",
    "logSoftmaxInPlace",
    "lstm",
    "maxAndArgMax",
    "minAndArgMin",
    "nonLinearity",
    "nonLinearityInPlace",
    "nonLinearityInputGradient",
    "pooling",
    "relu",
    "reluInPlace",
    "rnn",
    "sigmoid",
    "sigmoidInPlace",
    "softmax",
    "softmaxInPlace",
    "softmaxScaled",
    "softmaxScaledInPlace",
    "softmaxStable",
    "softmaxStableInPlace",
    "spatialSoftMax2D",
    "tanh",
    "tanhInPlace",
    "topK",
]
