"""Reductions along dimensions.

In: a tensor, dimensions, and what to do with them. Out: a tensor without those dimensions, or one of the user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from openipu.graph.mapped import choose_format
from poplar import Graph, Tensor, Type
from poplar._library import Target, call_library


class Operation(Enum):
    ADD = "add"
    MUL = "mul"
    MIN = "min"
    MAX = "max"
    LOGICAL_AND = "logical and"
    LOGICAL_OR = "logical or"
    SQUARE_ADD = "square add"
    LOG_ADD = "log add"


@dataclass(frozen=True, slots=True)
class ReduceParams:
    """What to do; `scale` multiplies the result, `update` adds it to what the output holds."""

    op: Operation = Operation.ADD
    update: bool = False
    scale: Any = None
    useScale: bool = False


@dataclass(frozen=True, slots=True)
class SingleReduceOp:
    """One of several reductions for `reduceMany`."""

    inputs: Tensor
    dims: Sequence[int]
    params: ReduceParams
    outType: Type | None = None
    name: str = ""


def _calculate(tensor: torch.Tensor, dims: list[int], op: Operation) -> torch.Tensor:
    if not dims:
        return tensor * tensor if op is Operation.SQUARE_ADD else tensor.clone()
    if op is Operation.ADD:
        return torch.sum(tensor, dims, dtype=tensor.dtype)
    if op is Operation.SQUARE_ADD:
        return torch.sum(tensor * tensor, dims, dtype=tensor.dtype)
    if op is Operation.MIN:
        return torch.amin(tensor, dims)
    if op is Operation.MAX:
        return torch.amax(tensor, dims)
    if op is Operation.LOG_ADD:
        return torch.logsumexp(tensor, dims)
    for dimension in sorted(dims, reverse=True):
        if op is Operation.MUL:
            tensor = torch.prod(tensor, dimension, dtype=tensor.dtype)
        elif op is Operation.LOGICAL_AND:
            tensor = torch.all(tensor, dimension)
        else:
            tensor = torch.any(tensor, dimension)
    return tensor


def reduce(graph: Graph, tensor: Tensor, *rest: Any, name: str = "") -> Tensor:
    """`reduce(graph, t, [outType,] dims, params, prog)`."""
    element = tensor.elementType()
    if isinstance(rest[0], Type):
        element, rest = rest[0], rest[1:]
    dims, params, prog = rest[0], rest[1], rest[2]
    label = name or next((value for value in rest[3:] if isinstance(value, str)), "")
    found = _reduce(graph, tensor, dims, params, prog, label, element, None)
    assert found is not None
    return found


def reduceWithOutput(
    graph: Graph,
    tensor: Tensor,
    out: Tensor,
    dims: Sequence[int],
    params: ReduceParams,
    prog: Target,
    name: str = "",
    options: Any = None,
) -> None:
    """The same into a tensor of the user's; `prog` may be a list, which gets compute sets."""
    _reduce(graph, tensor, dims, params, prog, name, out.elementType(), out)


def reduceMany(graph: Graph, ops: Sequence[SingleReduceOp], outs: list[Tensor], prog: Target, name: str = "") -> None:
    """Several reductions. `outs` is filled if it is empty."""
    given = list(outs)
    for place, one in enumerate(ops):
        label = one.name or name
        if given:
            reduceWithOutput(graph, one.inputs, given[place], one.dims, one.params, prog, label)
        else:
            element = one.outType or one.inputs.elementType()
            outs.append(reduce(graph, one.inputs, element, one.dims, one.params, prog, name=label))


def _reduce(
    graph: Graph,
    tensor: Tensor,
    dims: Sequence[int],
    params: ReduceParams,
    prog: Target,
    name: str,
    element: Type,
    out: Tensor | None,
) -> Tensor:
    scale, wanted = params.scale, choose_format(element)
    operands = [tensor]
    if isinstance(scale, Tensor):
        operands.append(scale)
    if params.update:
        assert out is not None, "A reduction that updates needs an output."
        operands.append(out)
    places = [int(dimension) for dimension in dims]

    def traced(*given: torch.Tensor) -> torch.Tensor:
        # Sums of halves into floats are floats all the way.
        widened = given[0].to(wanted) if wanted is torch.float32 and given[0].dtype is torch.float16 else given[0]
        made = _calculate(widened, places, params.op)
        rest = list(given[1:])
        if isinstance(scale, Tensor):
            made = made * rest.pop(0).reshape(()).to(made.dtype)
        elif scale is not None:
            made = made * scale
        if params.update:
            made = rest.pop(0).reshape(made.shape) + made
        return made if made.dtype is wanted else made.to(wanted)

    outputs = None if out is None else [out]
    return call_library(graph, prog, "popops::reduce", traced, operands, outputs=outputs, types=[element], name=name)[0]
