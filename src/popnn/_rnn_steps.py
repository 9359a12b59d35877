"""Plain recurrent layers in single steps: operands, states, and what one time step does.

In: sizes, or tensors of one step [batch, size]. Out: tensors; weights are [from, to].
"""

from __future__ import annotations

from typing import Any

from poplar import Graph, Tensor, Type
from poplar._library import Target
from poplin import createMatMulInputLHS, createMatMulInputRHS, matMul, matMulAcc
from popnn.nonlinearity import NonLinearityType, nonLinearityInputGradient
from popops import Operation, ReduceParams, addInPlace, reduceWithOutput, zero


def createInput(
    graph: Graph, numSteps: int, batchSize: int, inputSize: int, outputSize: int, dType: Type, *rest: Any
) -> Tensor:
    """A variable for a sequence: [steps, batch, size]."""
    shape = [numSteps * batchSize, inputSize]
    made = createMatMulInputLHS(graph, dType, shape, [inputSize, outputSize], *_names(rest, "rnn/in"))
    return made.reshape([numSteps, batchSize, inputSize])


def createWeightsInput(
    graph: Graph, sequenceSize: int, batchSize: int, inputSize: int, outputSize: int, dType: Type, *rest: Any
) -> Tensor:
    shapes = [batchSize, inputSize], [inputSize, outputSize]
    return createMatMulInputRHS(graph, dType, *shapes, *_names(rest, "rnn/input weights"))


def createWeightsFeedback(graph: Graph, batchSize: int, outputSize: int, dType: Type, *rest: Any) -> Tensor:
    shapes = [batchSize, outputSize], [outputSize, outputSize]
    return createMatMulInputRHS(graph, dType, *shapes, *_names(rest, "rnn/feedback weights"))


def createFwdState(
    graph: Graph, dType: Type, batchSize: int, outputSize: int, prog: Target, initState: bool, *rest: Any
) -> Tensor:
    """A variable for a state, zero if it is to be initialised."""
    shapes = [batchSize, outputSize], [outputSize, outputSize]
    made = createMatMulInputLHS(graph, dType, *shapes, *_names(rest, "rnn/state"))
    if initState:
        zero(graph, made, prog)
    return made


def getOutputFromFwdState(fwdState: Tensor) -> Tensor:
    return fwdState


def createBwdState(graph: Graph, dType: Type, batchSize: int, outputSize: int, prog: Target, *rest: Any) -> Tensor:
    return createFwdState(graph, dType, batchSize, outputSize, prog, True, *_names(rest, "rnn/backward state"))


def _names(rest: tuple[Any, ...], otherwise: str) -> list[str]:
    return [next((value for value in rest if isinstance(value, str) and value), otherwise)]


def forwardWeightInput(graph: Graph, actIn: Tensor, weights: Tensor, prog: Target, *rest: Any) -> Tensor:
    """A sequence times the input weights, in one product."""
    steps, batch, size = actIn.shape()
    made = matMul(graph, actIn.reshape([steps * batch, size]), weights, prog)
    return made.reshape([steps, batch, weights.dim(1)])


def backwardGradientStep(
    graph: Graph, nextLayerGrad: Tensor, bwdState: Tensor, actOut: Tensor, *rest: Any, name: str = ""
) -> Any:
    """The new backward state, and with input weights the gradient of the input before it.

    `(graph, nextLayerGrad, bwdState, actOut, [weightsInput,] weightsFeedback, prog, nonLinearityType)`.
    """
    weights = [value for value in rest if isinstance(value, Tensor)]
    prog, kind = rest[len(weights)], next(value for value in rest if isinstance(value, NonLinearityType))
    change = matMul(graph, bwdState, weights[-1].transpose(), prog, name=name)
    addInPlace(graph, change, nextLayerGrad, prog)
    state = nonLinearityInputGradient(graph, kind, actOut, change, prog)
    if len(weights) == 1:
        return state
    return matMul(graph, state, weights[0].transpose(), prog), state


def paramDeltaUpdate(
    graph: Graph,
    bwdState: Tensor,
    actIn: Tensor,
    prevOut: Tensor,
    weightsInputDeltasAcc: Tensor,
    weightsFeedbackDeltasAcc: Tensor,
    biasDeltasAcc: Tensor,
    prog: Target,
    *rest: Any,
) -> None:
    """Add what one step contributes to the gradients of both weights and of the biases."""
    matMulAcc(graph, weightsInputDeltasAcc, 1.0, actIn.transpose(), bwdState, prog)
    matMulAcc(graph, weightsFeedbackDeltasAcc, 1.0, prevOut.transpose(), bwdState, prog)
    reduceWithOutput(graph, bwdState, biasDeltasAcc, [0], ReduceParams(Operation.ADD, True), prog)
