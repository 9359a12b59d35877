"""GRU layers: forward, gradients of the input and the first state, gradients of the weights.

In: a sequence [time, batch, size], weights with gates in the order reset, update, candidate. Out: the outputs;
gradients. Where C++ takes a pointer to a tensor that it makes, a list gets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from openipu.graph.mapped import FLOAT
from poplar import Graph, Tensor, Type
from poplar._errors import poplar_error
from poplar._library import Target, call_library
from popnn._holders import Holder, fill, read_rest
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
    """[3, input, hidden], [3, hidden, hidden], [3, hidden].

    With `resetAfter` biases are [3, 2, hidden]: one for the input, one for the state.
    """

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
        _create(graph, params, [GATES, 2, hidden] if params.resetAfter else [GATES, hidden], "gru/biases"),
    )


def gruFwd(
    graph: Graph, params: GruParams, state: Tensor, sequence: Tensor, weights: GruWeights, *rest: Any, name: str = ""
) -> Tensor:
    """`(graph, params, state, in, weights, [intermediates,] prog)`: h' = u h + (1 - u) c."""
    intermediates, prog = read_rest("gruFwd", rest)
    wanted = [GATES, 2, params.hiddenSize] if params.resetAfter else [GATES, params.hiddenSize]
    if weights.biases.shape() != wanted:
        raise poplar_error(f"gruFwd: biases need shape {wanted}, not {weights.biases.shape()}.")

    def traced(
        given: torch.Tensor, hidden: torch.Tensor, into: torch.Tensor, back: torch.Tensor, biases: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        outputs, kept = [], []
        for step in range(given.shape[0]):
            first = biases[:, 0] if params.resetAfter else biases
            entered = [torch.addmm(first[gate], given[step], into[gate]) for gate in range(GATES)]
            if params.resetAfter:
                around = [torch.addmm(biases[gate, 1], hidden, back[gate]) for gate in range(GATES)]
                reset, update = torch.sigmoid(entered[0] + around[0]), torch.sigmoid(entered[1] + around[1])
                turned = around[2]
                candidate = torch.tanh(entered[2] + reset * turned)
            else:
                reset = torch.sigmoid(torch.addmm(entered[0], hidden, back[0]))
                update = torch.sigmoid(torch.addmm(entered[1], hidden, back[1]))
                turned = reset * hidden
                candidate = torch.tanh(torch.addmm(entered[2], turned, back[2]))
            if intermediates is not None:
                kept.append(torch.stack([reset, update, candidate, hidden, turned]))
            hidden = update * hidden + (1 - update) * candidate
            outputs.append(hidden)
        found = torch.stack(outputs) if params.outputFullSequence else outputs[-1]
        return (found, torch.stack(kept)) if intermediates is not None else (found,)

    operands = [sequence, state, weights.inputWeights, weights.outputWeights, weights.biases]
    types = [params.dataType] * (1 if intermediates is None else 2)
    made = call_library(graph, prog, "popnn::gruFwd", traced, operands, types=types, name=name)
    if intermediates is not None:
        fill(intermediates, made[1])
    return made[0]


def gruBwd(
    graph: Graph,
    params: GruParams,
    prog: Target,
    fwdOutputInit: Tensor,
    fwdIntermediates: Tensor,
    weights: GruWeights,
    input: Tensor,
    output: Tensor,
    outputGrad: Tensor,
    inputGrad: Holder,
    bwdIntermediates: Holder,
    *rest: Any,
    name: str = "",
) -> Tensor:
    """The gradient of the first state."""

    def traced(
        kept: torch.Tensor, grads: torch.Tensor, into: torch.Tensor, back: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        left = into.transpose(1, 2)
        hidden = torch.zeros_like(kept[0, 0])
        steps, inputs = [], []
        for step in reversed(range(kept.shape[0])):
            reset, update, candidate, before, turned = torch.unbind(kept[step])
            if params.outputFullSequence:
                hidden = hidden + grads[step]
            elif step == kept.shape[0] - 1:
                hidden = hidden + grads
            last = hidden * (1 - update) * (1 - candidate * candidate)
            middle = hidden * (before - candidate) * update * (1 - update)
            hidden = hidden * update
            if params.resetAfter:
                first = last * turned * reset * (1 - reset)
                hidden = hidden + torch.mm(last * reset, back[2].t())
            else:
                through = torch.mm(last, back[2].t())
                first = through * before * reset * (1 - reset)
                hidden = hidden + through * reset
            hidden = hidden + torch.mm(first, back[0].t()) + torch.mm(middle, back[1].t())
            gates = torch.stack([first, middle, last])
            steps.append(gates)
            if inputGrad is not None:
                inputs.append(torch.sum(torch.bmm(gates, left), 0))
        made = (hidden, torch.stack(steps[::-1]))
        return (*made, torch.stack(inputs[::-1])) if inputGrad is not None else made

    operands = [fwdIntermediates, outputGrad, weights.inputWeights, weights.outputWeights]
    types = [params.dataType] * (2 if inputGrad is None else 3)
    made = call_library(graph, prog, "popnn::gruBwd", traced, operands, types=types, name=name)
    fill(bwdIntermediates, made[1])
    if inputGrad is not None:
        fill(inputGrad, made[2])
    return made[0]


def gruWU(
    graph: Graph,
    params: GruParams,
    prog: Target,
    fwdOutputInit: Tensor,
    fwdIntermediates: Tensor,
    bwdIntermediates: Tensor,
    weights: GruWeights,
    input: Tensor,
    output: Tensor,
    *rest: Any,
    name: str = "",
) -> GruWeights:
    """The gradients of the weights."""

    def traced(
        given: torch.Tensor, kept: torch.Tensor, grads: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        size = grads.shape[3]
        gates = grads.permute(1, 0, 2, 3).reshape(GATES, -1, size)
        reset, before, turned = (kept[:, place].reshape(-1, size) for place in (0, 3, 4))
        sources = [before, before, before if params.resetAfter else turned]
        targets = [gates[0], gates[1], gates[2] * reset if params.resetAfter else gates[2]]
        feedback = [torch.mm(source.t(), target) for source, target in zip(sources, targets, strict=True)]
        flat = given.reshape(-1, given.shape[2]).t().unsqueeze(0).expand(GATES, -1, -1)
        biases = torch.sum(gates, 1)
        if params.resetAfter:
            biases = torch.stack([biases, torch.stack([torch.sum(target, 0) for target in targets])], 1)
        return torch.bmm(flat, gates), torch.stack(feedback), biases

    operands = [input, fwdIntermediates, bwdIntermediates]
    types = [params.dataType] * 3
    made = call_library(graph, prog, "popnn::gruWU", traced, operands, types=types, name=name)
    return GruWeights(made[0], made[1], made[2])


def gruBwdWithWU(
    graph: Graph,
    params: GruParams,
    prog: Target,
    fwdOutputInit: Tensor,
    fwdIntermediates: Tensor,
    weights: GruWeights,
    input: Tensor,
    output: Tensor,
    outputGrad: Tensor,
    inputGrad: Holder,
    weightsGrad: list[GruWeights],
    *rest: Any,
    name: str = "",
) -> Tensor:
    """Both; the gradients of the weights go to a list."""
    between: list[Tensor] = []
    state = gruBwd(
        graph, params, prog, fwdOutputInit, fwdIntermediates, weights, input, output, outputGrad, inputGrad, between,
        name=name,
    )  # fmt: skip
    weightsGrad.append(
        gruWU(graph, params, prog, fwdOutputInit, fwdIntermediates, between[0], weights, input, output, name=name)
    )
    return state
