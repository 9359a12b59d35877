"""Types and plain values: casts, fills, ranges, choices.

In: tensors and numbers. Out: tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from openipu.graph.mapped import choose_format
from poplar import Graph, Tensor, Type
from poplar._library import Target, call_library


def cast(graph: Graph, a: Tensor, to: Any, prog: Target, name: str = "") -> Tensor | None:
    """A tensor as another type: `cast(graph, t, FLOAT, prog)`; or into a tensor: `cast(graph, t, out, prog)`."""
    if isinstance(to, Tensor):
        castWithOutput(graph, a, to, prog, name)
        return None
    wanted = choose_format(to)
    return call_library(graph, prog, "popops::cast", lambda t: _convert(t, wanted), [a], types=[to], name=name)[0]


def castWithOutput(graph: Graph, a: Tensor, out: Tensor, prog: Target, name: str = "") -> None:
    wanted = choose_format(out.elementType())
    call_library(graph, prog, "popops::cast", lambda t: _convert(t, wanted), [a], outputs=[out], name=name)


def castInPlace(graph: Graph, a: Tensor, to: Type, prog: Target, name: str = "") -> Tensor:
    """A tensor of the new type; the old one is not needed any more."""
    found = cast(graph, a, to, prog, name)
    assert found is not None
    return found


def _convert(tensor: torch.Tensor, wanted: torch.dtype) -> torch.Tensor:
    return tensor.clone() if tensor.dtype is wanted else tensor.to(wanted)


def fill(graph: Graph, tensor: Tensor, prog: Target, value: float, name: str = "") -> None:
    """One number everywhere."""
    shape, dtype = tensor.shape(), choose_format(tensor.elementType())
    call_library(
        graph, prog, "popops::fill", lambda: torch.full(shape, value, dtype=dtype), [], outputs=[tensor], name=name
    )


def zero(graph: Graph, tensor: Tensor | Sequence[Tensor], prog: Target, name: str = "") -> None:
    """Zeros everywhere."""
    for one in [tensor] if isinstance(tensor, Tensor) else tensor:
        shape, dtype = one.shape(), choose_format(one.elementType())
        call_library(
            graph,
            prog,
            "popops::zero",
            lambda shape=shape, dtype=dtype: torch.zeros(shape, dtype=dtype),
            [],
            outputs=[one],
            name=name,
        )


def iota(graph: Graph, tensor: Tensor, start: int, prog: Target, name: str = "") -> None:
    """Consecutive numbers from `start` on."""
    count, dtype = tensor.numElements(), choose_format(tensor.elementType())
    call_library(
        graph,
        prog,
        "popops::iota",
        lambda: torch.arange(start, start + count, dtype=dtype).reshape(tensor.shape()),
        [],
        outputs=[tensor],
        name=name,
    )
