"""PopLibs' operations on tensors: elementwise, reductions, slices, sorting. Unofficial.

In: `poplar` graphs, tensors and sequences. Out: steps at the end of the sequence, and new tensors. Results are
PyTorch's, costs those of the same calls from PopTorch.
"""

from poplar import Graph
from popops import expr
from popops._cast import cast, castInPlace, castWithOutput, fill, iota, zero
from popops._choices import clamp, clampInPlace, clampWithOutput, select, selectInPlace, selectWithOutput
from popops._elementwise import *  # noqa: F403
from popops._elementwise import map, mapInPlace, mapWithOutput
from popops._images import createNormaliseImageInput, normaliseImage
from popops._loops import countedForLoop, countedLoop
from popops._padding import pad, padding
from popops._predicates import allTrue, hasNaN, hasNaNOrInf
from popops._reduce import Operation, ReduceParams, SingleReduceOp, reduce, reduceMany, reduceWithOutput
from popops._rows import (
    createDynamicSliceOutput,
    createIndicesTensor,
    createSliceableTensor,
    createSliceableTensorFromSlice,
    createSliceTensor,
    dynamicSlice,
    dynamicSliceWithOutput,
    dynamicUpdate,
    encodeOneHot,
    multiSlice,
    multiUpdate,
    multiUpdateAdd,
    multiUpdateMax,
    multiUpdateMul,
)
from popops._scaled import scaledAddTo, scaledSubtractFrom
from popops._scattered import (
    MASKED_LABEL_CODE,
    createGatherInput,
    gather,
    scatter,
    selectScalarFromRows,
    updateScalarInRows,
)
from popops._sequences import sequenceSlice
from popops._sorting import (
    SortOrder,
    TopKParams,
    createTopKInput,
    histogram,
    sort,
    sortInPlace,
    sortKeyValue,
    sortKeyValueInPlace,
    topK,
    topKKeyValue,
    topKWithPermutation,
)
from popops._splines import splineBasis, splineWeighting


def addCodelets(graph: Graph) -> None:
    """Nothing to add: library functions are there as they are."""


__all__ = [
    "MASKED_LABEL_CODE",
    "Operation",
    "ReduceParams",
    "SingleReduceOp",
    "SortOrder",
    "TopKParams",
    "addCodelets",
    "allTrue",
    "cast",
    "castInPlace",
    "castWithOutput",
    "clamp",
    "clampInPlace",
    "clampWithOutput",
    "countedForLoop",
    "countedLoop",
    "createDynamicSliceOutput",
    "createGatherInput",
    "createIndicesTensor",
    "createNormaliseImageInput",
    "createSliceTensor",
    "createSliceableTensor",
    "createSliceableTensorFromSlice",
    "createTopKInput",
    "dynamicSlice",
    "dynamicSliceWithOutput",
    "dynamicUpdate",
    "encodeOneHot",
    "expr",
    "fill",
    "gather",
    "hasNaN",
    "hasNaNOrInf",
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
    "padding",
    "reduce",
    "reduceMany",
    "reduceWithOutput",
    "scaledAddTo",
    "scaledSubtractFrom",
    "scatter",
    "select",
    "selectInPlace",
    "selectScalarFromRows",
    "selectWithOutput",
    "sequenceSlice",
    "sort",
    "sortInPlace",
    "sortKeyValue",
    "sortKeyValueInPlace",
    "splineBasis",
    "splineWeighting",
    "topK",
    "topKKeyValue",
    "topKWithPermutation",
    "updateScalarInRows",
    "zero",
]
