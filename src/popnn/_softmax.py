"""Logarithms of softmax."""

from __future__ import annotations

import torch

from poplar import Graph, Tensor
from poplar._library import Target, call_library


def logSoftmax(graph: Graph, tensor: Tensor, prog: Target, name: str = "") -> Tensor:
    """Over the last dimension."""
    traced = lambda given: torch.log_softmax(given, -1)  # noqa: E731
    return call_library(graph, prog, "popnn::logSoftmax", traced, [tensor], name=name)[0]


def logSoftmaxInPlace(graph: Graph, tensor: Tensor, prog: Target, name: str = "") -> None:
    traced = lambda given: torch.log_softmax(given, -1)  # noqa: E731
    call_library(graph, prog, "popnn::logSoftmax", traced, [tensor], outputs=[tensor], name=name)
