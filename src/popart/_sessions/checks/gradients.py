"""Gradients that PopART writes by patterns: without its pattern, such an op cannot be trained.

In: a model, the loss, tensors whose gradients are asked for, the patterns that are on. Out: popart_exception where a
gradient would be left that nothing can compute. openipu differentiates without patterns, so nothing else depends on
them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from openipu.translate import ForeignGraph
from openipu.translate.onnx import DOMAIN
from popart._exceptions import popart_exception
from popart._patterns import Patterns

# (domain, op) -> the pattern of the gradient of each input
_PATTERNS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "Cos"): ("CosGradOp",),
    ("", "Exp"): ("ExpGradOp",),
    ("", "Reciprocal"): ("ReciprocalGradOp",),
    ("", "Sqrt"): ("SqrtGradOp",),
    ("", "Sub"): ("", "SubtractArg1GradOp"),
    ("", "ConvTranspose"): ("", "ConvFlipWeightsGradOp"),
    (DOMAIN, "Atan2"): ("Atan2Arg0GradOp", "Atan2Arg1GradOp"),
    (DOMAIN, "Expm1"): ("Expm1GradOp",),
    (DOMAIN, "Log1p"): ("Log1pGradOp",),
}
_FORWARD = {("", "Cosh"): "CoshOp"}  # ops that are themselves written by a pattern


def check_forward(graph: ForeignGraph, patterns: Patterns) -> None:
    """Refuse an op without the pattern that writes it in others."""
    for node in graph.nodes:
        pattern = _FORWARD.get((node.domain, node.op))
        if pattern is not None:
            _need(pattern, node.title, patterns)


def check_gradients(graph: ForeignGraph, loss: str, asked: Collection[str], patterns: Patterns) -> None:
    """Refuse a gradient without its pattern."""
    needed = _find_needed(graph, loss)
    varying = {*graph.weights, *asked}
    for node in graph.nodes:
        kind = (node.domain, node.op)
        moves = [name in varying for name in node.inputs]
        if any(moves):
            varying.update(node.outputs)
        if not needed.intersection(node.outputs):
            continue
        for moved, pattern in zip(moves, _PATTERNS.get(kind, ()), strict=False):
            if moved and pattern:
                _need(pattern, node.title, patterns)


def _need(pattern: str, title: str, patterns: Patterns) -> None:
    if not patterns.isPatternEnabled(pattern):
        raise popart_exception(f"{title}: This op should have been removed by pattern {pattern}")


def _find_needed(graph: ForeignGraph, loss: str) -> set[str]:
    """Tensors that a loss depends on."""
    needed = {loss}
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
    return needed
