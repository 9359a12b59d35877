"""Plain recurrent layers: forward, and all gradients.

In: a sequence [time, batch, size], weights [from, to] and a non-linearity. Out: the outputs; gradients.
"""

from __future__ import annotations

from typing import Any

import torch

from poplar import Graph, Tensor
from poplar._errors import poplar_error
from poplar._library import Target, call_library
from popnn._rnn_steps import (
    backwardGradientStep,
    createBwdState,
    createFwdState,
    createInput,
    createWeightsFeedback,
    createWeightsInput,
    forwardWeightInput,
    getOutputFromFwdState,
    paramDeltaUpdate,
)
from popnn.nonlinearity import BACKWARD, FORWARD, NonLinearityType


def forwardIterate(
    graph: Graph,
    feedFwdIn: Tensor,
    initState: Tensor,
    feedbackWeights: Tensor,
    biases: Tensor,
    prog: Target,
    nonLinearityType: NonLinearityType = NonLinearityType.TANH,
    *rest: Any,
    name: str = "",
) -> Tensor:
    """h' = f(x + h F + b) for each step, where x is the input times its weights (`forwardWeightInput`)."""

    def traced(given: torch.Tensor, hidden: torch.Tensor, back: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        outputs = []
        for step in range(given.shape[0]):
            hidden = FORWARD[nonLinearityType](torch.addmm(given[step] + shift, hidden, back))
            outputs.append(hidden)
        return torch.stack(outputs)

    operands, types = [feedFwdIn, initState, feedbackWeights, biases], [feedFwdIn.elementType()]
    return call_library(graph, prog, "popnn::forwardIterate", traced, operands, types=types, name=name)[0]


def rnnFwdSequence(
    graph: Graph,
    prog: Target,
    fwdStateInit: Tensor,
    weightedIn: Tensor | None,
    biases: Tensor,
    feedFwdWeights: Tensor,
    feedbackWeights: Tensor,
    prevLayerActs: Tensor,
    nonLinearityType: NonLinearityType,
    *rest: Any,
    name: str = "",
) -> Tensor:
    """All outputs. With `weightedIn`, the input times its weights is there already."""
    if weightedIn is None:
        weightedIn = forwardWeightInput(graph, prevLayerActs, feedFwdWeights, prog)
    return forwardIterate(graph, weightedIn, fwdStateInit, feedbackWeights, biases, prog, nonLinearityType, name=name)


_FROM_OUTPUT = (
    NonLinearityType.TANH,
    NonLinearityType.SIGMOID,
    NonLinearityType.RELU,
    NonLinearityType.HARD_SIGMOID,
)  # those whose gradient follows from what they returned


def rnnBwdSequence(
    graph: Graph,
    doWU: bool,
    ignoreInputGradientCalc: bool,
    prog: Target,
    fwdStateInit: Tensor,
    fwdState: Tensor,
    biases: Tensor,
    feedFwdWeights: Tensor,
    feedbackWeights: Tensor,
    outGradient: Tensor,
    actIn: Tensor,
    nonLinearityType: NonLinearityType,
    *rest: Any,
    name: str = "",
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of the input, of both weights and of the biases; none where they are not asked for."""
    if nonLinearityType not in _FROM_OUTPUT:
        known = ", ".join(kind.name for kind in _FROM_OUTPUT)
        raise poplar_error(f"rnnBwdSequence: no gradient of {nonLinearityType.name} from its output. Use {known}.")

    def traced(
        first: torch.Tensor, outputs: torch.Tensor, into: torch.Tensor, back: torch.Tensor, grads: torch.Tensor,
        given: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:  # fmt: skip
        hidden = torch.zeros_like(first)
        steps = []
        for step in reversed(range(outputs.shape[0])):
            change = BACKWARD[nonLinearityType](outputs[step], hidden + grads[step])
            hidden = torch.mm(change, back.t())
            steps.append(change)
        flat = torch.cat(steps[::-1])
        made: list[torch.Tensor] = []
        if not ignoreInputGradientCalc:
            made.append(torch.mm(flat, into.t()).reshape(given.shape))
        if doWU:
            before = torch.cat([first.unsqueeze(0), outputs[:-1]]).reshape(-1, first.shape[1])
            rows = given.reshape(-1, given.shape[2])
            made += [torch.mm(rows.t(), flat), torch.mm(before.t(), flat), torch.sum(flat, 0)]
        return tuple(made)

    if ignoreInputGradientCalc and not doWU:
        return None, None, None, None
    operands = [fwdStateInit, fwdState, feedFwdWeights, feedbackWeights, outGradient, actIn]
    types = [actIn.elementType()] * ((0 if ignoreInputGradientCalc else 1) + (3 if doWU else 0))
    made: list[Tensor | None] = list(
        call_library(graph, prog, "popnn::rnnBwdSequence", traced, operands, types=types, name=name)
    )
    if ignoreInputGradientCalc:
        made.insert(0, None)
    made += [None] * (4 - len(made))
    return made[0], made[1], made[2], made[3]


__all__ = [
    "backwardGradientStep",
    "createBwdState",
    "createFwdState",
    "createInput",
    "createWeightsFeedback",
    "createWeightsInput",
    "forwardIterate",
    "forwardWeightInput",
    "getOutputFromFwdState",
    "paramDeltaUpdate",
    "rnnBwdSequence",
    "rnnFwdSequence",
]
