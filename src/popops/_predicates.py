"""Questions about a whole tensor, answered by one BOOL.

In: a tensor. Out: a tensor of one element.
"""

from __future__ import annotations

import torch

from openipu.graph.mapped import BOOL
from poplar import Graph, Tensor
from poplar._library import Target, call_library


def allTrue(graph: Graph, a: Tensor, prog: Target, name: str = "") -> Tensor:
    """Is every element true?"""
    return _ask(graph, "popops::allTrue", lambda given: torch.all(given.to(torch.bool)), a, prog, name)


def hasNaN(graph: Graph, src: Tensor, prog: Target, name: str = "") -> Tensor:
    """Is any element no number?"""
    return _ask(graph, "popops::hasNaN", lambda given: torch.any(torch.isnan(given)), src, prog, name)


def hasNaNOrInf(graph: Graph, src: Tensor, prog: Target, name: str = "") -> Tensor:
    """Is any element no number, or infinite?"""
    question = lambda given: torch.any(torch.logical_not(torch.isfinite(given)))  # noqa: E731
    return _ask(graph, "popops::hasNaNOrInf", question, src, prog, name)


def _ask(graph: Graph, function: str, question: object, tensor: Tensor, prog: Target, name: str) -> Tensor:
    return call_library(graph, prog, function, question, [tensor], types=[BOOL], name=name)[0]  # type: ignore[arg-type]
