"""Products of matrices, alone and in groups.

In: tensors of two dimensions, or of three with the group first. Out: tensors. How operands lie is the planner's
business, so the functions that make operands spread them evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from openipu.graph.mapped import choose_format
from poplar import Graph, Tensor, Type
from poplar._library import Target, call_library
from poplar._linear import mapTensorLinearly


class PlanningCache:
    """Plans are kept by the planner itself; this is here to be passed on."""

    def size(self) -> int:
        return 0


def _types(rest: tuple[Any, ...], tensor: Tensor) -> tuple[Type, str]:
    """An output type and a name may stand anywhere behind the program."""
    element = next((value for value in rest if isinstance(value, Type)), tensor.elementType())
    return element, next((value for value in rest if isinstance(value, str)), "")


def _product(wanted: torch.dtype, grouped: bool) -> Any:
    def traced(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if a.dtype is not b.dtype:
            raise TypeError("both operands need the same element type")
        if a.dim() != (3 if grouped else 2) or b.dim() != a.dim():
            raise TypeError(f"operands need {3 if grouped else 2} dimensions")
        made = torch.bmm(a, b) if grouped else torch.mm(a, b)
        return made if made.dtype is wanted else made.to(wanted)

    return traced


def matMul(graph: Graph, a: Tensor, b: Tensor, prog: Target, *rest: Any, name: str = "") -> Tensor:
    """`a @ b`. An output type may follow the program."""
    element, label = _types(rest, a)
    traced = _product(choose_format(element), False)
    return call_library(graph, prog, "poplin::matMul", traced, [a, b], types=[element], name=name or label)[0]


def matMulWithOutput(graph: Graph, a: Tensor, b: Tensor, out: Tensor, prog: Target, *rest: Any, name: str = "") -> None:
    _, label = _types(rest, a)
    traced = _product(choose_format(out.elementType()), False)
    call_library(graph, prog, "poplin::matMul", traced, [a, b], outputs=[out], name=name or label)


def matMulGrouped(graph: Graph, a: Tensor, b: Tensor, prog: Target, *rest: Any, name: str = "") -> Tensor:
    """The same for each entry of the first dimension."""
    element, label = _types(rest, a)
    traced = _product(choose_format(element), True)
    return call_library(graph, prog, "poplin::matMulGrouped", traced, [a, b], types=[element], name=name or label)[0]


def _accumulate(
    graph: Graph, c: Tensor, k: Any, a: Tensor, b: Tensor, prog: Target, name: str, *, grouped: bool
) -> None:
    operands = [c, a, b, *([k] if isinstance(k, Tensor) else [])]

    def traced(held: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *factor: torch.Tensor) -> torch.Tensor:
        multiply = torch.bmm if grouped else torch.mm
        if factor:
            return held + (multiply(left, right) * factor[0].reshape(())).to(held.dtype)
        if grouped:
            return torch.baddbmm(held, left, right, alpha=k)
        return torch.addmm(held, left, right, alpha=k)

    call_library(graph, prog, "poplin::matMulAcc", traced, operands, outputs=[c], name=name)


def matMulAcc(
    graph: Graph, c: Tensor, k: Any, a: Tensor, b: Tensor, prog: Target, name: str = "", options: Any = None
) -> None:
    """`c += k a @ b`; k is a number or a tensor of one element."""
    _accumulate(graph, c, k, a, b, prog, name, grouped=False)


def matMulGroupedAcc(
    graph: Graph, c: Tensor, k: Any, a: Tensor, b: Tensor, prog: Target, name: str = "", options: Any = None
) -> None:
    _accumulate(graph, c, k, a, b, prog, name, grouped=True)


def _create(graph: Graph, element: Type, shape: Sequence[int], name: str) -> Tensor:
    made = graph.addVariable(element, shape, name)
    mapTensorLinearly(graph, made)
    return made


def _read_shapes(rest: tuple[Any, ...]) -> tuple[list[int], list[int], str]:
    """`([output type,] left shape, right shape, name, …)`."""
    shapes = [list(value) for value in rest if isinstance(value, (list, tuple))]
    return shapes[0], shapes[1], next((value for value in rest if isinstance(value, str)), "")


def createMatMulInputLHS(graph: Graph, element: Type, *rest: Any, name: str = "") -> Tensor:
    """A variable for the left side: `(graph, type, [output type,] left shape, right shape, name)`."""
    left, _, label = _read_shapes(rest)
    return _create(graph, element, left, name or label or "lhs")


def createMatMulInputRHS(graph: Graph, element: Type, *rest: Any, name: str = "") -> Tensor:
    _, right, label = _read_shapes(rest)
    return _create(graph, element, right, name or label or "rhs")


createMatMulGroupedInputLHS = createMatMulInputLHS
createMatMulGroupedInputRHS = createMatMulInputRHS


def preplan(convs: Any, matmuls: Any, cache: PlanningCache) -> None:
    """Plans are made when a program is planned, and kept then."""


def preplanMatMuls(matmuls: Any, cache: PlanningCache) -> None:
    """As `preplan`."""
