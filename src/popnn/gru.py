"""GRU layers, forward.

In: a sequence [time, batch, size], weights with gates in the order reset, update, candidate. Out: the outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from openipu.graph.mapped.elements import FLOAT
from poplar import Graph, Tensor, Type
from poplar._library import Target, call_library
from popnn.lstm import _create

GATES = 3


@dataclass(slots=True)
class GruParams:
    """Sizes of one layer."""

    dataType: Type = FLOAT
    batchSize: int = 1
    maxTimeSteps: int = 1
    inputSize: int = 1
    hiddenSize: int = 1
    outputFullSequence: bool = True
    resetAfter: bool = False


@dataclass(slots=True)
class GruWeights:
    """[3, input, hidden], [3, hidden, hidden], [3, hidden]."""

    inputWeights: Tensor
    outputWeights: Tensor
    biases: Tensor


def createInput(graph: Graph, params: GruParams, name: str = "", *rest: Any) -> Tensor:
    return _create(graph, params, [params.maxTimeSteps, params.batchSize, params.inputSize], name or "gru/in")


def createInitialState(graph: Graph, params: GruParams, name: str = "", *rest: Any) -> Tensor:
    return _create(graph, params, [params.batchSize, params.hiddenSize], name or "gru/state")


def createWeights(graph: Graph, params: GruParams, name: str = "", *rest: Any) -> GruWeights:
    hidden = params.hiddenSize
    return GruWeights(
        _create(graph, params, [GATES, params.inputSize, hidden], "gru/input weights"),
        _create(graph, params, [GATES, hidden, hidden], "gru/output weights"),
        _create(graph, params, [GATES, hidden], "gru/biases"),
    )


def gruFwd(
    graph: Graph, params: GruParams, state: Tensor, sequence: Tensor, weights: GruWeights, *rest: Any, name: str = ""
) -> Tensor:
    """`(graph, params, state, in, weights, [intermediates,] prog)`: h' = u h + (1 - u) c."""
    prog: Target = next(value for value in rest if value is not None and not isinstance(value, (Tensor, str)))

    def traced(
        given: torch.Tensor, hidden: torch.Tensor, into: torch.Tensor, back: torch.Tensor, biases: torch.Tensor
    ) -> torch.Tensor:
        outputs = []
        for step in range(given.shape[0]):
            entered = [torch.addmm(biases[gate], given[step], into[gate]) for gate in range(GATES)]
            reset = torch.sigmoid(torch.addmm(entered[0], hidden, back[0]))
            update = torch.sigmoid(torch.addmm(entered[1], hidden, back[1]))
            if params.resetAfter:
                candidate = torch.tanh(entered[2] + reset * torch.mm(hidden, back[2]))
            else:
                candidate = torch.tanh(torch.addmm(entered[2], reset * hidden, back[2]))
            hidden = update * hidden + (1 - update) * candidate
            outputs.append(hidden)
        return torch.stack(outputs) if params.outputFullSequence else outputs[-1]

    operands = [sequence, state, weights.inputWeights, weights.outputWeights, weights.biases]
    return call_library(graph, prog, "popnn::gruFwd", traced, operands, types=[params.dataType], name=name)[0]
