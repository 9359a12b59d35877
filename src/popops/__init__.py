"""PopLibs' operations on tensors: elementwise, reductions, slices, sorting. Unofficial.

In: `poplar` graphs, tensors and sequences. Out: steps at the end of the sequence, and new tensors. Results are
PyTorch's, costs those of the same calls from PopTorch.
"""

from poplar import Graph
from popops import expr
from popops._cast import cast, castInPlace, castWithOutput, fill, iota, select, zero
from popops._elementwise import *  # noqa: F403
from popops._elementwise import map, mapInPlace, mapWithOutput
from popops._images import createNormaliseImageInput, normaliseImage
from popops._loops import countedForLoop, countedLoop
from popops._reduce import Operation, ReduceParams, SingleReduceOp, reduce, reduceMany, reduceWithOutput
from popops._rows import (
    createIndicesTensor,
    createSliceableTensor,
    createSliceTensor,
    dynamicSlice,
    dynamicUpdate,
    encodeOneHot,
    gather,
    multiSlice,
    multiUpdate,
    multiUpdateAdd,
    multiUpdateMax,
    multiUpdateMul,
    pad,
    scatter,
)
from popops._scaled import scaledAddTo, scaledSubtractFrom
from popops._sequences import sequenceSlice
from popops._sorting import (
    SortOrder,
    TopKParams,
    histogram,
    sort,
    sortInPlace,
    sortKeyValue,
    topK,
    topKKeyValue,
    topKWithPermutation,
)
from popops._splines import splineBasis, splineWeighting


def addCodelets(graph: Graph) -> None:
    """Nothing to add: library functions are there as they are."""


__all__ = [
    "Operation",
    "ReduceParams",
    "SingleReduceOp",
    "SortOrder",
    "TopKParams",
    "addCodelets",
    "cast",
    "castInPlace",
    "castWithOutput",
    "countedForLoop",
    "countedLoop",
    "createIndicesTensor",
    "createNormaliseImageInput",
    "createSliceTensor",
    "createSliceableTensor",
    "dynamicSlice",
    "dynamicUpdate",
    "encodeOneHot",
    "expr",
    "fill",
    "gather",
    "histogram",
    "iota",
    "map",
    "mapInPlace",
    "mapWithOutput",
    "multiSlice",
    "multiUpdate",
    "multiUpdateAdd",
    "multiUpdateMax",
    "multiUpdateMul",
    "normaliseImage",
    "pad",
    "reduce",
    "reduceMany",
    "reduceWithOutput",
    "scaledAddTo",
    "scaledSubtractFrom",
    "scatter",
    "select",
    "sequenceSlice",
    "sort",
    "sortInPlace",
    "sortKeyValue",
    "splineBasis",
    "splineWeighting",
    "topK",
    "topKKeyValue",
    "topKWithPermutation",
    "zero",
]
