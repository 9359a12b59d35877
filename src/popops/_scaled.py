"""Scaled additions: a + k b, in place.

In: two tensors and one or two factors, numbers or tensors of one element. Out: nothing; the first tensor changes.
"""

from __future__ import annotations

from typing import Any

import torch

from poplar import Graph, Tensor
from poplar._library import Target, call_library


def scaledAddTo(graph: Graph, a: Tensor, *rest: Any, name: str = "") -> None:
    """`a += k b`: `(graph, a, b, k, prog)`; `a = x a + y b`: `(graph, a, x, b, y, prog)`."""
    _scale(graph, "popops::scaledAddTo", a, rest, 1.0, name)


def scaledSubtractFrom(graph: Graph, a: Tensor, *rest: Any, name: str = "") -> None:
    """`a -= k b`; `a = x a - y b`."""
    _scale(graph, "popops::scaledSubtractFrom", a, rest, -1.0, name)


def _scale(graph: Graph, function: str, a: Tensor, rest: tuple[Any, ...], sign: float, name: str) -> None:
    place = next(index for index, value in enumerate(rest) if not isinstance(value, (Tensor, int, float)))
    values, prog = rest[:place], rest[place]
    label = name or next((value for value in rest[place + 1 :] if isinstance(value, str)), "")
    if len(values) == 3:
        own, b, factor = values
    else:
        own, (b, factor) = None, values if len(values) == 2 else (*values, 1.0)
    operands = [a, b, *(value for value in (own, factor) if isinstance(value, Tensor))]

    def traced(*given: torch.Tensor) -> torch.Tensor:
        arrived = iter(given[2:])
        left = given[0]
        if own is not None:
            left = left * (next(arrived).reshape(()) if isinstance(own, Tensor) else own)
        if isinstance(factor, Tensor):
            scaled = given[1] * next(arrived).reshape(()).to(given[1].dtype)
            return torch.add(left, scaled.to(left.dtype), alpha=sign)
        return torch.add(left, given[1].to(left.dtype), alpha=sign * factor)

    _run(graph, prog, function, traced, operands, a, label)


def _run(
    graph: Graph, prog: Target, function: str, traced: Any, operands: list[Tensor], out: Tensor, name: str
) -> None:
    call_library(graph, prog, function, traced, operands, outputs=[out], name=name)
