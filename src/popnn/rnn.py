"""Plain recurrent layers, forward.

In: a sequence [time, batch, size], weights and a non-linearity. Out: the outputs.
"""

from __future__ import annotations

from typing import Any

import torch

from poplar import Graph, Tensor
from poplar._library import Target, call_library
from popnn.nonlinearity import FORWARD, NonLinearityType


def forwardIterate(
    graph: Graph,
    sequence: Tensor,
    state: Tensor,
    weightsInput: Tensor,
    weightsFeedback: Tensor,
    biases: Tensor,
    prog: Target,
    nonLinearityType: NonLinearityType = NonLinearityType.TANH,
    *rest: Any,
    name: str = "",
) -> Tensor:
    """h' = f(x W + h F + b) for each step."""

    def traced(
        given: torch.Tensor, hidden: torch.Tensor, into: torch.Tensor, back: torch.Tensor, shift: torch.Tensor
    ) -> torch.Tensor:
        outputs = []
        for step in range(given.shape[0]):
            hidden = FORWARD[nonLinearityType](torch.addmm(torch.addmm(shift, given[step], into), hidden, back))
            outputs.append(hidden)
        return torch.stack(outputs)

    operands = [sequence, state, weightsInput, weightsFeedback, biases]
    types = [sequence.elementType()]
    return call_library(graph, prog, "popnn::rnnFwd", traced, operands, types=types, name=name)[0]
