"""Convolutions, forward and both gradients.

In: activations [batch, channels, field…] and weights [groups, out channels a group, in channels a group, kernel…]. Out:
tensors in the same order of dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as functional

from openipu.graph.mapped import FLOAT, choose_format
from poplar import Graph, Tensor, Type
from poplar._errors import poplar_error
from poplar._library import Target, call_library
from poplin._operands import make_operand


@dataclass(slots=True)
class ConvParams:
    """One convolution. Padding and strides have one number for each dimension of the field."""

    inputType: Type = FLOAT
    batchSize: int = 1
    inputFieldShape: Sequence[int] = ()
    kernelShape: Sequence[int] = ()
    inputChannels: int = 1  # of one group
    outputChannels: int = 1  # of one group
    numConvGroups: int = 1
    stride: Sequence[int] = field(default_factory=list)
    paddingLower: Sequence[int] = field(default_factory=list)
    paddingUpper: Sequence[int] = field(default_factory=list)
    dilation: Sequence[int] = field(default_factory=list)
    outputType: Type | None = None

    def _fill(self, given: Sequence[int], otherwise: int) -> list[int]:
        return list(given) or [otherwise] * len(self.inputFieldShape)

    @property
    def strides(self) -> list[int]:
        return self._fill(self.stride, 1)

    @property
    def dilations(self) -> list[int]:
        return self._fill(self.dilation, 1)

    @property
    def padding(self) -> list[tuple[int, int]]:
        return list(zip(self._fill(self.paddingLower, 0), self._fill(self.paddingUpper, 0), strict=True))

    def getOutputFieldShape(self) -> list[int]:
        sizes = zip(self.inputFieldShape, self.kernelShape, self.strides, self.dilations, self.padding, strict=True)
        return [
            (size + low + up - (kernel - 1) * step - 1) // stride + 1 for size, kernel, stride, step, (low, up) in sizes
        ]


def createInput(graph: Graph, params: ConvParams, name: str = "", *rest: Any) -> Tensor:
    channels = params.inputChannels * params.numConvGroups
    shape = [params.batchSize, channels, *params.inputFieldShape]
    return make_operand(graph, params.inputType, shape, [name], "in")


def createWeights(graph: Graph, params: ConvParams, name: str = "", *rest: Any) -> Tensor:
    shape = [params.numConvGroups, params.outputChannels, params.inputChannels, *params.kernelShape]
    return make_operand(graph, params.inputType, shape, [name], "weights")


def createBiases(graph: Graph, activations: Tensor, name: str = "", *rest: Any) -> Tensor:
    return make_operand(graph, activations.elementType(), [activations.dim(1)], [name], "biases")


def createConvOutput(graph: Graph, params: ConvParams, name: str = "", *rest: Any) -> Tensor:
    shape = [params.batchSize, params.outputChannels * params.numConvGroups, *params.getOutputFieldShape()]
    return make_operand(graph, params.outputType or params.inputType, shape, [name], "out")


def _pad(tensor: torch.Tensor, params: ConvParams) -> torch.Tensor:
    if all(low == up for low, up in params.padding):
        return tensor
    edges = [edge for low, up in reversed(params.padding) for edge in (low, up)]
    return functional.pad(tensor, edges)


def _even(params: ConvParams) -> list[int]:
    even = all(low == up for low, up in params.padding)
    return [low for low, _ in params.padding] if even else [0] * len(params.padding)


def _convolve(a: torch.Tensor, w: torch.Tensor, params: ConvParams) -> torch.Tensor:
    weights = w.reshape(-1, *w.shape[2:])
    return torch.convolution(
        _pad(a, params), weights, None, params.strides, _even(params), params.dilations, False,
        [0] * len(params.strides), params.numConvGroups,
    )  # fmt: skip


def convolution(
    graph: Graph,
    activations: Tensor,
    weights: Tensor,
    params: ConvParams,
    transposeAndFlipWeights: bool,
    prog: Target,
    name: str = "",
    *rest: Any,
) -> Tensor:
    """A convolution; with `transposeAndFlipWeights` the one that gives the gradient of its input."""
    return _run(graph, activations, weights, None, params, transposeAndFlipWeights, prog, name)


def convolutionWithOutput(
    graph: Graph,
    activations: Tensor,
    weights: Tensor,
    out: Tensor,
    params: ConvParams,
    transposeAndFlipWeights: bool,
    prog: Target,
    name: str = "",
    *rest: Any,
) -> None:
    """The same into a tensor of the user's."""
    _run(graph, activations, weights, out, params, transposeAndFlipWeights, prog, name)


def _run(
    graph: Graph,
    activations: Tensor,
    weights: Tensor,
    out: Tensor | None,
    params: ConvParams,
    turned: bool,
    prog: Target,
    name: str,
) -> Tensor:
    wanted = choose_format(params.outputType or params.inputType)

    def traced(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        if turned:
            w = w.transpose(1, 2).flip(list(range(3, w.dim())))
        made = _convolve(a, w, params)
        return made if made.dtype is wanted else made.to(wanted)

    types, outputs = [params.outputType or params.inputType], None if out is None else [out]
    operands, function = [activations, weights], "poplin::convolution"
    return call_library(graph, prog, function, traced, operands, outputs=outputs, types=types, name=name)[0]


def weightsTransposeChansFlipXY(graph: Graph, weights: Tensor, out: Tensor, prog: Target, name: str = "") -> None:
    """Weights for the gradient of the input: channels exchanged, kernels turned."""

    def traced(w: torch.Tensor) -> torch.Tensor:
        return w.transpose(1, 2).flip(list(range(3, w.dim()))).contiguous()

    call_library(graph, prog, "poplin::weightsTransposeChansFlipXY", traced, [weights], outputs=[out], name=name)


def calculateWeightDeltas(
    graph: Graph, deltas: Tensor, activations: Tensor, params: ConvParams, prog: Target, name: str = "", *rest: Any
) -> Tensor:
    """The gradient of the weights, from the gradient of the output and the input."""
    if any(low != up for low, up in params.padding):
        raise poplar_error("calculateWeightDeltas: padding must be the same on both sides. Pad the input before.")
    groups, kernel = params.numConvGroups, list(params.kernelShape)

    def traced(grad: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        weights = torch.empty([params.outputChannels * groups, params.inputChannels, *kernel], dtype=a.dtype)
        made = torch.ops.aten.convolution_backward(
            grad, a, weights, None, params.strides, _even(params), params.dilations, False,
            [0] * len(kernel), groups, [False, True, False],
        )[1]  # fmt: skip
        found: torch.Tensor = made.reshape(groups, params.outputChannels, params.inputChannels, *kernel)
        return found

    types = [params.outputType or params.inputType]
    function = "poplin::calculateWeightDeltas"
    return call_library(graph, prog, function, traced, [deltas, activations], types=types, name=name)[0]


def convolutionWeightUpdate(
    graph: Graph,
    deltas: Tensor,
    weights: Tensor,
    activations: Tensor,
    params: ConvParams,
    scale: Any,
    prog: Target,
    name: str = "",
    *rest: Any,
) -> None:
    """Weights plus their gradient times a factor."""
    from popops import scaledAddTo

    delta = calculateWeightDeltas(graph, deltas, activations, params, prog, name)
    scaledAddTo(graph, weights, delta, scale, prog)


def convolutionBiasUpdate(
    graph: Graph, deltas: Tensor, biases: Tensor, scale: Any, prog: Target, name: str = "", *rest: Any
) -> None:
    """Biases plus the sum of the output's gradient times a factor."""
    from popops import Operation, ReduceParams, reduceWithOutput

    dims = [dimension for dimension in range(deltas.rank()) if dimension != 1]
    reduceWithOutput(graph, deltas, biases, dims, ReduceParams(Operation.ADD, True, scale), prog, name)


def addBias(graph: Graph, activations: Tensor, biases: Tensor, prog: Target, name: str = "", *rest: Any) -> None:
    """One number for each channel, added in place."""

    def traced(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b.reshape([1, -1, *[1] * (a.dim() - 2)])

    call_library(graph, prog, "poplin::addBias", traced, [activations, biases], outputs=[activations], name=name)
