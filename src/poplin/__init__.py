"""PopLibs' linear algebra: products, convolutions, norms' statistics, decompositions. Unofficial.

In: `poplar` graphs, tensors and sequences. Out: steps at the end of the sequence, and new tensors.
"""

from poplar import Graph
from poplin import multiconv
from poplin._convolution import (
    ConvParams,
    addBias,
    calculateWeightDeltas,
    convolution,
    convolutionBiasUpdate,
    convolutionWeightUpdate,
    createBiases,
    createInput,
    createWeights,
    weightsTransposeChansFlipXY,
)
from poplin._matmul import (
    PlanningCache,
    createMatMulGroupedInputLHS,
    createMatMulGroupedInputRHS,
    createMatMulInputLHS,
    createMatMulInputRHS,
    matMul,
    matMulAcc,
    matMulGrouped,
    matMulGroupedAcc,
    matMulWithOutput,
    preplan,
    preplanMatMuls,
)
from poplin._solving import cholesky, linspace, meshgrid, triangularSolve


def addCodelets(graph: Graph) -> None:
    """Nothing to add: library functions are there as they are."""


__all__ = [
    "ConvParams",
    "PlanningCache",
    "addBias",
    "addCodelets",
    "calculateWeightDeltas",
    "cholesky",
    "convolution",
    "convolutionBiasUpdate",
    "convolutionWeightUpdate",
    "createBiases",
    "createInput",
    "createMatMulGroupedInputLHS",
    "createMatMulGroupedInputRHS",
    "createMatMulInputLHS",
    "createMatMulInputRHS",
    "createWeights",
    "linspace",
    "matMul",
    "matMulAcc",
    "matMulGrouped",
    "matMulGroupedAcc",
    "matMulWithOutput",
    "meshgrid",
    "multiconv",
    "preplan",
    "preplanMatMuls",
    "triangularSolve",
    "weightsTransposeChansFlipXY",
]
