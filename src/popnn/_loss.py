"""Losses with their gradients, accuracy, and places of the largest.

In: outputs of a model [batch, classes] and expected classes. Out: the loss and deltas in the user's tensors.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch
import torch.nn.functional as functional

from openipu.graph.mapped import UNSIGNED_INT
from poplar import Graph, Tensor
from poplar._library import Target, call_library

_SMALLEST = 1e-30  # the logarithm of a probability that is zero


class LossType(Enum):
    SUM_SQUARED_LOSS = 0
    CROSS_ENTROPY_LOSS = 1


SUM_SQUARED_LOSS, CROSS_ENTROPY_LOSS = LossType.SUM_SQUARED_LOSS, LossType.CROSS_ENTROPY_LOSS


def _calculate(
    outputs: torch.Tensor, expected: torch.Tensor, kind: LossType
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    classes = expected.reshape(-1).to(torch.int64)
    hot = functional.one_hot(classes, outputs.shape[1]).to(outputs.dtype)
    deltas = outputs - hot
    if kind is LossType.SUM_SQUARED_LOSS:
        loss = 0.5 * torch.sum(deltas * deltas, 1)
    else:
        chosen = torch.gather(outputs, 1, classes.reshape(-1, 1)).reshape(-1)
        loss = -torch.log(torch.clamp(chosen, min=_SMALLEST))
    right = torch.sum(torch.argmax(outputs, 1) == classes)
    return loss, deltas, right.reshape(1)


def calcLoss(
    graph: Graph, outputs: Tensor, expected: Tensor, loss: Tensor, deltas: Tensor, *rest: Any, name: str = ""
) -> Any:
    """`(graph, probabilities, expected, loss, deltas, [numCorrect,] lossType, prog)`.

    The probabilities are those of a softmax; deltas are the gradient of its input. `loss` has one number a sample. The
    number of right samples is added to what `numCorrect` holds.
    """
    given = list(rest)
    correct = given.pop(0) if isinstance(given[0], Tensor) else None
    if len(given) > 2 and isinstance(given[2], str):  # C++ gives a name and options behind the program
        name = given.pop(2) or name
    if len(given) == 3 and given[2] == {}:
        given.pop()
    if len(given) != 2 or not isinstance(given[0], LossType):
        raise TypeError(
            "calcLoss takes (graph, probabilities, expected, loss, deltas, [numCorrect,] lossType, prog). Scales of "
            "deltas and outputs are not offered: multiply the tensors with popops.mulInPlace."
        )
    kind: LossType = given[0]
    prog: Target = given[1]
    counted = [correct] if correct is not None else []

    def traced(outputs: torch.Tensor, expected: torch.Tensor, *before: torch.Tensor) -> tuple[torch.Tensor, ...]:
        loss, deltas, right = _calculate(outputs, expected, kind)
        return (loss, deltas, *(count.reshape(-1).to(right.dtype) + right for count in before))

    operands, targets = [outputs, expected, *counted], [loss, deltas, *counted]
    call_library(graph, prog, "popnn::calcLoss", traced, operands, outputs=targets, name=name)


def calcAccuracy(
    graph: Graph, outputs: Tensor, expected: Tensor, correct: Tensor, prog: Target, name: str = ""
) -> None:
    """Add to `correct` how many samples have their largest output where it is expected."""

    def traced(given: torch.Tensor, wanted: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        right = torch.sum(torch.argmax(given, 1) == wanted.reshape(-1).to(torch.int64))
        return before.reshape(-1).to(right.dtype) + right.reshape(1)

    operands = [outputs, expected, correct]
    call_library(graph, prog, "popnn::calcAccuracy", traced, operands, outputs=[correct], name=name)


def _find(graph: Graph, tensor: Tensor, prog: Target, name: str, *, largest: bool, values: bool) -> list[Tensor]:
    def traced(given: torch.Tensor) -> Any:
        found, places = torch.max(given, -1) if largest else torch.min(given, -1)
        return (found, places) if values else (places,)

    types = [tensor.elementType(), UNSIGNED_INT] if values else [UNSIGNED_INT]
    function = f"popnn::arg{'Max' if largest else 'Min'}"
    return call_library(graph, prog, function, traced, [tensor], types=types, name=name)


def argMax(graph: Graph, tensor: Tensor, prog: Target, name: str = "") -> Tensor:
    """The place of the largest element of each row."""
    return _find(graph, tensor, prog, name, largest=True, values=False)[0]


def argMin(graph: Graph, tensor: Tensor, prog: Target, name: str = "") -> Tensor:
    return _find(graph, tensor, prog, name, largest=False, values=False)[0]


def maxAndArgMax(graph: Graph, tensor: Tensor, prog: Target, name: str = "") -> tuple[Tensor, Tensor]:
    found = _find(graph, tensor, prog, name, largest=True, values=True)
    return found[0], found[1]


def minAndArgMin(graph: Graph, tensor: Tensor, prog: Target, name: str = "") -> tuple[Tensor, Tensor]:
    found = _find(graph, tensor, prog, name, largest=False, values=True)
    return found[0], found[1]


def topK(
    graph: Graph, tensor: Tensor, indices: list[Tensor], k: int, sort: bool, prog: Target, name: str = ""
) -> Tensor:
    """The k largest of each row; a list gets the tensor of their places. They are in order in any case."""

    def traced(given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(torch.topk(given, k, -1))  # type: ignore[return-value]

    types = [tensor.elementType(), UNSIGNED_INT]
    made = call_library(graph, prog, "popnn::topK", traced, [tensor], types=types, name=name)
    indices.append(made[1])
    return made[0]
