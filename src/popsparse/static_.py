"""Products with a sparse matrix whose pattern is known when the graph is made.

In: the pattern as compressed rows, values as a tensor in the same order, dense tensors. Out: dense tensors.
"""

from __future__ import annotations

from typing import Any

import torch

from openipu.graph.mapped import UNSIGNED_INT
from poplar import Graph, Tensor, Type
from poplar._library import Target, call_library
from poplar._linear import mapTensorLinearly
from popsparse import dynamic
from popsparse._formats import CSRMatrix, Grid, read_matrix
from popsparse._params import StaticMatMulParams as MatMulParams
from popsparse._params import check_options
from popsparse._tensors import SparseTensor, make_variable, spread


def _make_sparse(
    graph: Graph, element: Type, rows: int, columns: int, matrix: CSRMatrix, rest: tuple[Any, ...]
) -> SparseTensor:
    check_options(rest)
    grid = Grid(rows, columns, *matrix.getBlockDimensions())
    blocks = read_matrix(matrix, grid)
    numbers = graph.addConstant(UNSIGNED_INT, [len(blocks.numbers)], blocks.numbers, "pattern")
    mapTensorLinearly(graph, numbers)
    values = make_variable(graph, element, [len(blocks.numbers) * grid.size], "nzValues")
    return SparseTensor(numbers, values, grid)


def createSparseDenseMatMulLHS(
    graph: Graph, inputType: Type, params: MatMulParams, csrLHS: CSRMatrix, *rest: Any
) -> SparseTensor:
    """Values go to `getNzValuesTensor()` sorted by row and column."""
    return _make_sparse(graph, inputType, params.m, params.k, csrLHS, rest)


def createDenseSparseMatMulRHS(
    graph: Graph, inputType: Type, params: MatMulParams, csrRHS: CSRMatrix, *rest: Any
) -> SparseTensor:
    return _make_sparse(graph, inputType, params.k, params.m, csrRHS, rest)


def createSparseDenseMatMulRHS(
    graph: Graph, inputType: Type, params: MatMulParams, csrLHS: CSRMatrix, *rest: Any
) -> Tensor:
    check_options(rest)
    return make_variable(graph, inputType, [1, params.k, params.n], "rhs")


def createDenseSparseMatMulLHS(
    graph: Graph, inputType: Type, params: MatMulParams, csrRHS: CSRMatrix, *rest: Any
) -> Tensor:
    check_options(rest)
    return make_variable(graph, inputType, [1, params.n, params.k], "lhs")


sparseDenseMatMul = dynamic.sparseDenseMatMul


def denseSparseMatMul(
    graph: Graph,
    lhs: Tensor,
    rhs: SparseTensor,
    prog: Target,
    transposeLHS: bool = False,
    transposeRHS: bool = False,
    *rest: Any,
) -> Tensor:
    """Dense [1, n, k] times sparse [1, k, m]; each may be turned first."""
    check_options(rest)
    grid = rhs.grid

    def traced(given: torch.Tensor, numbers: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        left, right = given.squeeze(0), spread(numbers, values, grid)
        return torch.mm(left.t() if transposeLHS else left, right.t() if transposeRHS else right).unsqueeze(0)

    operands, types = [lhs, rhs.metaInfo, rhs.nzValues], [lhs.elementType()]
    return call_library(graph, prog, "popsparse::denseSparseMatMul", traced, operands, types=types)[0]


__all__ = [
    "MatMulParams",
    "SparseTensor",
    "createDenseSparseMatMulLHS",
    "createDenseSparseMatMulRHS",
    "createSparseDenseMatMulLHS",
    "createSparseDenseMatMulRHS",
    "denseSparseMatMul",
    "sparseDenseMatMul",
]
