"""Several convolutions at once, by the original's lists of arguments.

In: lists of arguments, one entry for each convolution. Out: lists of tensors. Each convolution is planned by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from poplar import Graph, Tensor
from poplar._errors import poplar_error
from poplar._library import Target
from poplin import _convolution as single
from poplin._convolution import ConvParams


@dataclass(slots=True)
class CreateTensorArgs:
    params: ConvParams
    options: Mapping[str, str] = field(default_factory=dict)
    name: str = ""


@dataclass(slots=True)
class ConvolutionArgs:
    inputs: Tensor
    weights: Tensor
    params: ConvParams
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class CalculateWeightDeltasArgs:
    zDeltas: Tensor
    activations: Tensor
    params: ConvParams
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ConvWeightUpdateArgs:
    """`scale` is a tensor or a number."""

    zDeltas: Tensor
    weights: Tensor
    activations: Tensor
    scale: Any
    params: ConvParams
    options: Mapping[str, str] = field(default_factory=dict)


def _pick(function: str, args: Sequence[CreateTensorArgs], index: int) -> CreateTensorArgs:
    if not 0 <= index < len(args):
        raise poplar_error(f"multiconv.{function}: there are {len(args)} convolutions, and no number {index}.")
    return args[index]


def createWeights(graph: Graph, args: Sequence[CreateTensorArgs], weightsIndex: int, *rest: Any) -> Tensor:
    chosen = _pick("createWeights", args, weightsIndex)
    return single.createWeights(graph, chosen.params, chosen.name)


def createInput(graph: Graph, args: Sequence[CreateTensorArgs], inputIndex: int, *rest: Any) -> Tensor:
    chosen = _pick("createInput", args, inputIndex)
    return single.createInput(graph, chosen.params, chosen.name)


def convolution(
    graph: Graph,
    args: Sequence[ConvolutionArgs],
    transposeAndFlipWeights: bool,
    prog: Target,
    name: str = "",
    *rest: Any,
) -> list[Tensor]:
    return [
        single.convolution(graph, one.inputs, one.weights, one.params, transposeAndFlipWeights, prog, name)
        for one in args
    ]


def weightsTransposeChansFlipXY(
    graph: Graph, args: Sequence[ConvolutionArgs], weightsIn: Sequence[Tensor], prog: Target, *rest: Any
) -> None:
    """Each of `weightsIn`, turned, to the weights of `args`."""
    for one, given in zip(args, weightsIn, strict=True):
        single.weightsTransposeChansFlipXY(graph, given, one.weights, prog)


def calculateWeightDeltas(
    graph: Graph, args: Sequence[CalculateWeightDeltasArgs], prog: Target, name: str = "", *rest: Any
) -> list[Tensor]:
    return [single.calculateWeightDeltas(graph, one.zDeltas, one.activations, one.params, prog, name) for one in args]


def convolutionWeightUpdate(
    graph: Graph, args: Sequence[ConvWeightUpdateArgs], prog: Target, name: str = "", *rest: Any
) -> None:
    for one in args:
        single.convolutionWeightUpdate(
            graph, one.zDeltas, one.weights, one.activations, one.params, one.scale, prog, name
        )
