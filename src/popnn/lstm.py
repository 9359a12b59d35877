"""LSTM layers, forward.

In: a sequence [time, batch, size], weights with gates in the order forget, input, candidate, output. Out: the sequence
of outputs, and the last cell state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from openipu.graph.mapped.elements import FLOAT
from poplar import Graph, Tensor, Type
from poplar._library import Target, call_library
from poplar._linear import mapTensorLinearly

GATES = 4


@dataclass(slots=True)
class LstmParams:
    """Sizes of one layer."""

    dataType: Type = FLOAT
    batchSize: int = 1
    maxTimeSteps: int = 1
    inputSize: int = 1
    hiddenSize: int = 1
    outputFullSequence: bool = True


@dataclass(slots=True)
class LstmState:
    output: Tensor
    cellState: Tensor


@dataclass(slots=True)
class LstmWeights:
    """[4, input, hidden], [4, hidden, hidden], [4, hidden]."""

    inputWeights: Tensor
    outputWeights: Tensor
    biases: Tensor


def _create(graph: Graph, params: Any, shape: list[int], name: str) -> Tensor:
    made = graph.addVariable(params.dataType, shape, name)
    mapTensorLinearly(graph, made)
    return made


def createInput(graph: Graph, params: LstmParams, name: str = "", *rest: Any) -> Tensor:
    return _create(graph, params, [params.maxTimeSteps, params.batchSize, params.inputSize], name or "lstm/in")


def createInitialState(graph: Graph, params: LstmParams, name: str = "", *rest: Any) -> LstmState:
    shape = [params.batchSize, params.hiddenSize]
    return LstmState(_create(graph, params, shape, "lstm/output"), _create(graph, params, shape, "lstm/cell"))


def createWeights(graph: Graph, params: LstmParams, name: str = "", *rest: Any) -> LstmWeights:
    hidden = params.hiddenSize
    return LstmWeights(
        _create(graph, params, [GATES, params.inputSize, hidden], "lstm/input weights"),
        _create(graph, params, [GATES, hidden, hidden], "lstm/output weights"),
        _create(graph, params, [GATES, hidden], "lstm/biases"),
    )


def lstmFwd(
    graph: Graph,
    params: LstmParams,
    state: LstmState,
    sequence: Tensor,
    weights: LstmWeights,
    *rest: Any,
    name: str = "",
) -> tuple[Tensor, Tensor]:
    """`(graph, params, state, in, weights, [intermediates,] prog)`."""
    prog: Target = next(value for value in rest if value is not None and not isinstance(value, (Tensor, str)))

    def traced(
        given: torch.Tensor,
        hidden: torch.Tensor,
        cell: torch.Tensor,
        into: torch.Tensor,
        back: torch.Tensor,
        biases: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        wide, size = given.shape[2], hidden.shape[1]
        left = into.permute(1, 0, 2).reshape(wide, GATES * size)
        right = back.permute(1, 0, 2).reshape(size, GATES * size)
        shift = biases.reshape(GATES * size)
        outputs = []
        for step in range(given.shape[0]):
            gates = torch.addmm(torch.addmm(shift, given[step], left), hidden, right)
            forget, enter, candidate, leave = torch.chunk(gates, GATES, 1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
            hidden = torch.sigmoid(leave) * torch.tanh(cell)
            outputs.append(hidden)
        return (torch.stack(outputs) if params.outputFullSequence else outputs[-1]), cell

    operands = [
        sequence, state.output, state.cellState, weights.inputWeights, weights.outputWeights, weights.biases,
    ]  # fmt: skip
    types = [params.dataType, params.dataType]
    made = call_library(graph, prog, "popnn::lstmFwd", traced, operands, types=types, name=name)
    return made[0], made[1]
