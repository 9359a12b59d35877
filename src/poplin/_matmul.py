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
from poplar import program as programs
from poplar._library import Target, call_library
from poplin._operands import make_operand


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


def matMulGroupedWithOutput(
    graph: Graph, a: Tensor, b: Tensor, out: Tensor, prog: Target, *rest: Any, name: str = ""
) -> None:
    _, label = _types(rest, a)
    traced = _product(choose_format(out.elementType()), True)
    call_library(graph, prog, "poplin::matMulGrouped", traced, [a, b], outputs=[out], name=name or label)


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


def _read_shapes(rest: tuple[Any, ...]) -> tuple[list[int], list[int]]:
    """`([output type,] left shape, right shape, name, …)`."""
    left, right = (list(value) for value in rest if isinstance(value, (list, tuple)))
    return left, right


def createMatMulInputLHS(graph: Graph, element: Type, *rest: Any, name: str = "") -> Tensor:
    """A variable for the left side: `(graph, type, [output type,] left shape, right shape, name)`."""
    return make_operand(graph, element, _read_shapes(rest)[0], [name, *rest], "lhs")


def createMatMulInputRHS(graph: Graph, element: Type, *rest: Any, name: str = "") -> Tensor:
    return make_operand(graph, element, _read_shapes(rest)[1], [name, *rest], "rhs")


def createMatMulOutput(graph: Graph, element: Type, *rest: Any, name: str = "") -> Tensor:
    """A variable for the result: `(graph, type, [output type,] left shape, right shape, name)`."""
    left, right = _read_shapes(rest)
    found = next((value for value in rest if isinstance(value, Type)), element)
    return make_operand(graph, found, [*left[:-1], right[-1]], [name, *rest], "product")


def preArrangeMatMulInputRHS(
    graph: Graph, aShape: Sequence[int], b: Tensor, prog: programs.Sequence, *rest: Any, name: str = ""
) -> Tensor:
    """A copy of the right side, spread as `createMatMulInputRHS` does."""
    made = make_operand(graph, b.elementType(), b.shape(), [name, *rest], "rhs")
    prog.add(programs.Copy(b, made))
    return made


def transposeGroupedMatrix(a: Tensor) -> Tensor:
    """Each matrix of [groups, rows, columns] turned, as a view."""
    return a.dimShuffle([0, 2, 1])


createMatMulGroupedOutput = createMatMulOutput
preArrangeMatMulGroupedInputRHS = preArrangeMatMulInputRHS
createMatMulGroupedInputLHS = createMatMulInputLHS
createMatMulGroupedInputRHS = createMatMulInputRHS


def preplan(convs: Any, matmuls: Any, cache: PlanningCache) -> None:
    """Plans are made when a program is planned, and kept then."""


def preplanMatMuls(matmuls: Any, cache: PlanningCache) -> None:
    """As `preplan`."""
