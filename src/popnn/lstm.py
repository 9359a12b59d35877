"""LSTM layers: forward, gradients of the input and the first state, gradients of the weights.

In: a sequence [time, batch, size], weights with gates in the order forget, input, candidate, output. Out: the sequence
of outputs and the last cell state; gradients. Where C++ takes a pointer to a tensor that it makes, a list gets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from openipu.graph.mapped import FLOAT
from poplar import Graph, Tensor, Type
from poplar._library import Target, call_library
from poplar._linear import mapTensorLinearly
from popnn._holders import Holder, fill, read_rest
from popops import zero

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


def zeroInitialState(graph: Graph, state: LstmState, prog: Target, name: str = "") -> None:
    zero(graph, [state.output, state.cellState], prog, name)


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
    """`(graph, params, state, in, weights, [intermediates,] prog)`; a list gets what `lstmBwd` needs."""
    intermediates, prog = read_rest("lstmFwd", rest)

    def traced(
        given: torch.Tensor,
        hidden: torch.Tensor,
        cell: torch.Tensor,
        into: torch.Tensor,
        back: torch.Tensor,
        biases: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        left, right, shift = _flat(into), _flat(back), biases.reshape(-1)
        outputs, kept = [], []
        for step in range(given.shape[0]):
            gates = torch.addmm(torch.addmm(shift, given[step], left), hidden, right)
            forget, enter, candidate, leave = torch.chunk(gates, GATES, 1)
            forget, enter, leave = torch.sigmoid(forget), torch.sigmoid(enter), torch.sigmoid(leave)
            candidate, before = torch.tanh(candidate), cell
            cell = forget * cell + enter * candidate
            shown = torch.tanh(cell)
            hidden = leave * shown
            outputs.append(hidden)
            if intermediates is not None:
                kept.append(torch.stack([forget, enter, candidate, leave, before, shown]))
        found = torch.stack(outputs) if params.outputFullSequence else outputs[-1]
        return (found, cell, torch.stack(kept)) if intermediates is not None else (found, cell)

    operands = [
        sequence, state.output, state.cellState, weights.inputWeights, weights.outputWeights, weights.biases,
    ]  # fmt: skip
    types = [params.dataType] * (2 if intermediates is None else 3)
    made = call_library(graph, prog, "popnn::lstmFwd", traced, operands, types=types, name=name)
    if intermediates is not None:
        fill(intermediates, made[2])
    return made[0], made[1]


def _flat(weights: torch.Tensor) -> torch.Tensor:
    """[gates, from, to] as one matrix."""
    return weights.permute(1, 0, 2).reshape(weights.shape[1], -1)


def _unflat(weights: torch.Tensor, gates: int) -> torch.Tensor:
    return weights.reshape(weights.shape[0], gates, -1).permute(1, 0, 2)


def lstmBwd(
    graph: Graph,
    params: LstmParams,
    prog: Target,
    fwdStateInit: LstmState,
    fwdIntermediates: Tensor,
    weights: LstmWeights,
    input: Tensor,
    output: Tensor,
    outputGrad: Tensor,
    lastStepStateGrad: LstmState | Tensor | None,
    inputGrad: Holder,
    bwdIntermediates: Holder,
    *rest: Any,
    name: str = "",
) -> LstmState:
    """The gradient of the first state. The last one's may be of the whole state, or of the cell alone."""
    last = lastStepStateGrad
    ends = [last] if isinstance(last, Tensor) else [] if last is None else [last.cellState, last.output]

    def traced(
        kept: torch.Tensor, grads: torch.Tensor, into: torch.Tensor, back: torch.Tensor, *given: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        left, right = _flat(into).t(), _flat(back).t()
        cell = given[0] if given else torch.zeros_like(kept[0, 0])
        hidden = given[1] if len(given) > 1 else torch.zeros_like(kept[0, 0])
        steps, inputs = [], []
        for step in reversed(range(kept.shape[0])):
            forget, enter, candidate, leave, before, shown = torch.unbind(kept[step])
            if params.outputFullSequence:
                hidden = hidden + grads[step]
            elif step == kept.shape[0] - 1:
                hidden = hidden + grads
            cell = cell + hidden * leave * (1 - shown * shown)
            gates = torch.cat(
                [
                    cell * before * forget * (1 - forget),
                    cell * candidate * enter * (1 - enter),
                    cell * enter * (1 - candidate * candidate),
                    hidden * shown * leave * (1 - leave),
                ],
                1,
            )
            cell, hidden = cell * forget, torch.mm(gates, right)
            steps.append(gates)
            if inputGrad is not None:
                inputs.append(torch.mm(gates, left))
        made = (hidden, cell, torch.stack(steps[::-1]))
        return (*made, torch.stack(inputs[::-1])) if inputGrad is not None else made

    operands = [fwdIntermediates, outputGrad, weights.inputWeights, weights.outputWeights, *ends]
    types = [params.dataType] * (3 if inputGrad is None else 4)
    made = call_library(graph, prog, "popnn::lstmBwd", traced, operands, types=types, name=name)
    fill(bwdIntermediates, made[2])
    if inputGrad is not None:
        fill(inputGrad, made[3])
    return LstmState(made[0], made[1])


def lstmWU(
    graph: Graph,
    params: LstmParams,
    prog: Target,
    fwdStateInit: LstmState,
    fwdIntermediates: Tensor,
    bwdIntermediates: Tensor,
    weights: LstmWeights,
    input: Tensor,
    output: Tensor,
    *rest: Any,
    name: str = "",
) -> LstmWeights:
    """The gradients of the weights."""

    def traced(
        given: torch.Tensor, first: torch.Tensor, kept: torch.Tensor, gates: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        outputs = kept[:-1, 3] * kept[:-1, 5]  # what each step but the last returned
        before = torch.cat([first.unsqueeze(0), outputs])
        flat = gates.reshape(-1, gates.shape[2])
        return (
            _unflat(torch.mm(given.reshape(-1, given.shape[2]).t(), flat), GATES),
            _unflat(torch.mm(before.reshape(-1, before.shape[2]).t(), flat), GATES),
            torch.sum(flat, 0).reshape(GATES, -1),
        )

    operands = [input, fwdStateInit.output, fwdIntermediates, bwdIntermediates]
    types = [params.dataType] * 3
    made = call_library(graph, prog, "popnn::lstmWU", traced, operands, types=types, name=name)
    return LstmWeights(made[0], made[1], made[2])


def lstmBwdWithWU(
    graph: Graph,
    params: LstmParams,
    prog: Target,
    fwdStateInit: LstmState,
    fwdIntermediates: Tensor,
    weights: LstmWeights,
    input: Tensor,
    output: Tensor,
    outputGrad: Tensor,
    lastStepStateGrad: LstmState | Tensor | None,
    inputGrad: Holder,
    weightsGrad: list[LstmWeights],
    *rest: Any,
    name: str = "",
) -> LstmState:
    """Both; the gradients of the weights go to a list."""
    between: list[Tensor] = []
    state = lstmBwd(
        graph, params, prog, fwdStateInit, fwdIntermediates, weights, input, output, outputGrad, lastStepStateGrad,
        inputGrad, between, name=name,
    )  # fmt: skip
    weightsGrad.append(
        lstmWU(graph, params, prog, fwdStateInit, fwdIntermediates, between[0], weights, input, output, name=name)
    )
    return state
