"""Decompositions and grids.

In: tensors [batch…, n, n]. Out: tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from openipu.graph.mapped import choose_format
from poplar import Graph, Tensor, Type
from poplar._errors import poplar_error
from poplar._library import Target, call_library
from poplar._linear import mapTensorLinearly
from poplin._operands import make_operand


def cholesky(graph: Graph, a: Tensor, lower: bool, prog: Target, name: str = "", *rest: Any) -> Tensor:
    """The factor of a symmetric positive matrix."""
    return call_library(graph, prog, "poplin::cholesky", lambda given: _factor(given, lower), [a], name=name)[0]


def choleskyInPlace(graph: Graph, a: Tensor, lower: bool, prog: Target, name: str = "", *rest: Any) -> None:
    """The same in place of the matrix."""
    traced = lambda given: _factor(given, lower)  # noqa: E731
    call_library(graph, prog, "poplin::choleskyInPlace", traced, [a], outputs=[a], name=name)


def _factor(given: torch.Tensor, lower: bool) -> torch.Tensor:
    found: torch.Tensor = torch.linalg.cholesky_ex(given, upper=not lower)[0]
    return found


def createCholeskyInput(graph: Graph, element: Type, shape: Sequence[int], lower: bool, *rest: Any) -> Tensor:
    return make_operand(graph, element, shape, rest, "cholesky in")


def createTriangularSolveInputLHS(
    graph: Graph,
    element: Type,
    outputType: Type,
    aShape: Sequence[int],
    bShape: Sequence[int],
    leftSide: bool,
    *rest: Any,
) -> Tensor:
    return make_operand(graph, element, aShape, rest, "lhs")


def createTriangularSolveInputRHS(
    graph: Graph,
    element: Type,
    outputType: Type,
    aShape: Sequence[int],
    bShape: Sequence[int],
    leftSide: bool,
    *rest: Any,
) -> Tensor:
    return make_operand(graph, element, bShape, rest, "rhs")


def triangularMask(
    graph: Graph, a: Tensor, lower: bool, unitDiagonal: bool, prog: Target, name: str = "", *rest: Any
) -> Tensor:
    """One triangle of a matrix, and zeros; with `unitDiagonal` ones on the diagonal."""

    def traced(given: torch.Tensor) -> torch.Tensor:
        size = given.shape[-1]
        found = torch.tril(given) if lower else torch.triu(given)
        if unitDiagonal:
            here = torch.arange(size).reshape(-1, 1) == torch.arange(size)
            found = torch.where(here, torch.ones((), dtype=given.dtype), found)
        return found

    return call_library(graph, prog, "poplin::triangularMask", traced, [a], name=name)[0]


def triangularSolve(
    graph: Graph,
    a: Tensor,
    b: Tensor,
    leftSide: bool,
    lower: bool,
    unitDiagonal: bool,
    prog: Target,
    name: str = "",
    *rest: Any,
) -> Tensor:
    """`x` of `a x = b`, or of `x a = b`."""

    def traced(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.linalg.solve_triangular(
            left, right, upper=not lower, left=leftSide, unitriangular=unitDiagonal
        )
        return found

    return call_library(graph, prog, "poplin::triangularSolve", traced, [a, b], types=[b.elementType()], name=name)[0]


def linspace(graph: Graph, element: Type, left: float, right: float, count: int, name: str = "") -> Tensor:
    """A constant of evenly spaced numbers."""
    if count < 1:
        raise poplar_error(f"linspace: {count} numbers.")
    values = torch.linspace(left, right, count, dtype=torch.float32).to(choose_format(element)).numpy()
    made = graph.addConstant(element, [count], values, name or "linspace")
    mapTensorLinearly(graph, made)
    return made


def meshgrid(graph: Graph, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Each vector along a dimension of its own, as views."""
    rank = len(inputs)
    found = []
    for place, vector in enumerate(inputs):
        view = vector.expand([0] * place + [1] * (rank - 1 - place))
        for dimension, other in enumerate(inputs):
            if dimension != place:
                view = view.broadcast(other.numElements(), dimension)
        found.append(view)
    return found


def meshgrid2d(graph: Graph, x: Tensor, y: Tensor) -> list[Tensor]:
    """Columns and rows, as numpy's meshgrid has them: both results are [y, x]."""
    down, right = meshgrid(graph, [y, x])
    return [right, down]
