"""Products with a sparse matrix whose pattern may change from run to run.

In: a `SparseTensor` that a `Partitioner` fills, and dense tensors. Out: dense tensors, or values where the pattern is.
"""

from __future__ import annotations

from typing import Any

import torch

from openipu.graph.mapped import UNSIGNED_INT
from poplar import Graph, Tensor, Type
from poplar._errors import poplar_error
from poplar._library import Target, call_library
from popsparse._formats import Grid
from popsparse._params import (
    FullyConnectedParams,
    MatMulParams,
    SparsityParams,
    SparsityStructure,
    SparsityType,
    check_options,
)
from popsparse._partitioner import Partitioner, SparsityDataImpl
from popsparse._tensors import SparseTensor, check_shape, make_variable, pick, spread


def _label(rest: tuple[Any, ...], otherwise: str) -> str:
    check_options(rest)
    return next((value for value in rest if isinstance(value, str) and value), otherwise)


def _make_sparse(graph: Graph, element: Type, params: FullyConnectedParams | MatMulParams, name: str) -> SparseTensor:
    numbers = make_variable(graph, UNSIGNED_INT, [params.capacity], f"{name}/metaInfo")
    values = make_variable(graph, element, [params.capacity * params.grid.size], f"{name}/nzValues")
    return SparseTensor(numbers, values, params.grid)


def _check_weights(function: str, weights: SparseTensor, grid: Grid) -> None:
    if weights.grid != grid:
        raise poplar_error(f"{function}: the sparse tensor is {weights.grid}, and the parameters say {grid}.")


def createFullyConnectedWeights(
    graph: Graph, inputType: Type, params: FullyConnectedParams, *rest: Any
) -> SparseTensor:
    return _make_sparse(graph, inputType, params, _label(rest, "weights"))


def createFullyConnectedInput(graph: Graph, inputType: Type, params: FullyConnectedParams, *rest: Any) -> Tensor:
    shape = [params.getBatchSize(), params.getInputChannels()]
    return make_variable(graph, inputType, shape, _label(rest, "activations"))


def fullyConnectedFwd(
    graph: Graph, weights: SparseTensor, activations: Tensor, params: FullyConnectedParams, prog: Target, *rest: Any
) -> Tensor:
    """[batch, inputs] times the transposed weights."""
    name, grid = _label(rest, ""), params.grid
    _check_weights("fullyConnectedFwd", weights, grid)
    check_shape("fullyConnectedFwd", "activations", activations, [params.getBatchSize(), grid.columns])

    def traced(numbers: torch.Tensor, values: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return torch.mm(given, spread(numbers, values, grid).t())

    operands = [weights.metaInfo, weights.nzValues, activations]
    types = [activations.elementType()]
    return call_library(graph, prog, "popsparse::fullyConnectedFwd", traced, operands, types=types, name=name)[0]


def fullyConnectedGradA(
    graph: Graph, weights: SparseTensor, gradients: Tensor, params: FullyConnectedParams, prog: Target, *rest: Any
) -> Tensor:
    """The gradient of the input: [batch, outputs] times the weights."""
    name, grid = _label(rest, ""), params.grid
    _check_weights("fullyConnectedGradA", weights, grid)
    check_shape("fullyConnectedGradA", "gradients", gradients, [params.getBatchSize(), grid.rows])

    def traced(numbers: torch.Tensor, values: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return torch.mm(given, spread(numbers, values, grid))

    operands = [weights.metaInfo, weights.nzValues, gradients]
    types = [gradients.elementType()]
    return call_library(graph, prog, "popsparse::fullyConnectedGradA", traced, operands, types=types, name=name)[0]


def fullyConnectedSparseGradW(
    graph: Graph,
    sparsityMetaInfo: Tensor,
    gradA: Tensor,
    activations: Tensor,
    params: FullyConnectedParams,
    prog: Target,
    *rest: Any,
) -> Tensor:
    """The gradient of the non-zero weights, in the order of `nzValues`."""
    name, grid, function = _label(rest, ""), params.grid, "fullyConnectedSparseGradW"
    check_shape(function, "metaInfo", sparsityMetaInfo, [params.capacity])
    check_shape(function, "gradients", gradA, [params.getBatchSize(), grid.rows])
    check_shape(function, "activations", activations, [params.getBatchSize(), grid.columns])

    def traced(numbers: torch.Tensor, grad: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return pick(numbers, torch.mm(grad.t(), given), grid)

    operands, types = [sparsityMetaInfo, gradA, activations], [gradA.elementType()]
    return call_library(graph, prog, f"popsparse::{function}", traced, operands, types=types, name=name)[0]


def createSparseDenseMatMulLHS(graph: Graph, inputType: Type, params: MatMulParams, *rest: Any) -> SparseTensor:
    return _make_sparse(graph, inputType, params, _label(rest, "lhs"))


def createSparseDenseMatMulRHS(graph: Graph, inputType: Type, params: MatMulParams, *rest: Any) -> Tensor:
    return make_variable(graph, inputType, [1, params.getK(), params.getN()], _label(rest, "rhs"))


def sparseDenseMatMul(
    graph: Graph,
    lhs: SparseTensor,
    rhs: Tensor,
    prog: Target,
    transposeLHS: bool = False,
    transposeRHS: bool = False,
    *rest: Any,
) -> Tensor:
    """Sparse [1, m, k] times dense [1, k, n]; each may be turned first."""
    name, grid = _label(rest, ""), lhs.grid

    def traced(numbers: torch.Tensor, values: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        left = spread(numbers, values, grid)
        right = given.squeeze(0)
        return torch.mm(left.t() if transposeLHS else left, right.t() if transposeRHS else right).unsqueeze(0)

    operands, types = [lhs.metaInfo, lhs.nzValues, rhs], [rhs.elementType()]
    return call_library(graph, prog, "popsparse::sparseDenseMatMul", traced, operands, types=types, name=name)[0]


def createIndicesTensor(graph: Graph, params: FullyConnectedParams, numIndices: int, *rest: Any) -> Tensor:
    return make_variable(graph, UNSIGNED_INT, [numIndices], _label(rest, "indices"))


def createSliceTensor(
    graph: Graph, dataType: Type, params: FullyConnectedParams, numIndices: int, *rest: Any
) -> Tensor:
    return make_variable(graph, dataType, [numIndices, params.getInputChannels()], _label(rest, "slices"))


def embeddingSlice(
    graph: Graph, t: SparseTensor, indices: Tensor, prog: Target, params: FullyConnectedParams, *rest: Any
) -> Tensor:
    """Rows of a sparse matrix, dense: [indices, input channels]."""
    name, grid = _label(rest, ""), params.grid
    _check_weights("embeddingSlice", t, grid)

    def traced(numbers: torch.Tensor, values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        held = torch.clamp(rows.reshape(-1).to(torch.int64), 0, grid.rows - 1)
        return torch.index_select(spread(numbers, values, grid), 0, held)

    operands, types = [t.metaInfo, t.nzValues, indices], [t.nzValues.elementType()]
    return call_library(graph, prog, "popsparse::embeddingSlice", traced, operands, types=types, name=name)[0]


def embeddingUpdateAdd(
    graph: Graph,
    t: SparseTensor,
    slices: Tensor,
    indices: Tensor,
    scale: Tensor,
    prog: Target,
    params: FullyConnectedParams,
    *rest: Any,
) -> None:
    """Add rows times a factor to the values that are there; what lies between them is dropped."""
    name, grid = _label(rest, ""), params.grid
    _check_weights("embeddingUpdateAdd", t, grid)
    check_shape("embeddingUpdateAdd", "slices", slices, [indices.numElements(), grid.columns])

    def traced(
        numbers: torch.Tensor, values: torch.Tensor, new: torch.Tensor, rows: torch.Tensor, factor: torch.Tensor
    ) -> torch.Tensor:
        held = torch.clamp(rows.reshape(-1).to(torch.int64), 0, grid.rows - 1)
        scaled = new.to(values.dtype) * factor.reshape(()).to(values.dtype)
        whole = torch.index_add(torch.zeros(grid.rows, grid.columns, dtype=values.dtype), 0, held, scaled)
        return values + pick(numbers, whole, grid)

    operands = [t.metaInfo, t.nzValues, slices, indices, scale]
    call_library(graph, prog, "popsparse::embeddingUpdateAdd", traced, operands, outputs=[t.nzValues], name=name)


__all__ = [
    "FullyConnectedParams",
    "MatMulParams",
    "Partitioner",
    "SparseTensor",
    "SparsityDataImpl",
    "SparsityParams",
    "SparsityStructure",
    "SparsityType",
    "createFullyConnectedInput",
    "createFullyConnectedWeights",
    "createIndicesTensor",
    "createSliceTensor",
    "createSparseDenseMatMulLHS",
    "createSparseDenseMatMulRHS",
    "embeddingSlice",
    "embeddingUpdateAdd",
    "fullyConnectedFwd",
    "fullyConnectedGradA",
    "fullyConnectedSparseGradW",
    "sparseDenseMatMul",
]
