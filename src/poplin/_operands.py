"""Variables for operands. How they should lie is the planner's business, so they are spread evenly.

In: a type, a shape, and what stands behind the fixed arguments. Out: a variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poplar import Graph, Tensor, Type
from poplar._linear import mapTensorLinearly


def make_operand(graph: Graph, element: Type, shape: Sequence[int], rest: Sequence[Any], otherwise: str) -> Tensor:
    """A variable; the first text of `rest` names it."""
    name = next((value for value in rest if isinstance(value, str) and value), otherwise)
    made = graph.addVariable(element, list(shape), name)
    mapTensorLinearly(graph, made)
    return made
