"""Pooling over windows, and its gradient.

In: activations [batch, channels, height, width] and `PoolParams`. Out: tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
import torch.nn.functional as functional

from openipu.graph.mapped import FLOAT, MAX_POOL_GRADIENT
from poplar import Graph, Tensor, Type
from poplar._errors import poplar_error
from poplar._library import Target, call_kernel, call_library


class PoolingType(Enum):
    MAX = "max"
    AVG = "avg"
    SUM = "sum"


@dataclass(slots=True)
class PoolParams:
    """One pooling: windows of `kernelShape`, each `stride` after the last, over a padded field."""

    poolingType: PoolingType
    inputFieldShape: Sequence[int]
    kernelShape: Sequence[int]
    stride: Sequence[int] = field(default_factory=list)
    inputTruncationOrPaddingLower: Sequence[int] = field(default_factory=list)
    inputTruncationOrPaddingUpper: Sequence[int] = field(default_factory=list)
    numChannels: int = 1
    batchSize: int = 1
    inputType: Type = FLOAT

    def padding(self) -> list[int]:
        low = list(self.inputTruncationOrPaddingLower) or [0] * len(self.kernelShape)
        up = list(self.inputTruncationOrPaddingUpper) or [0] * len(self.kernelShape)
        if low != up or any(amount < 0 for amount in low):
            raise poplar_error("Pooling takes the same padding, not negative, on both sides. Pad or slice before.")
        return low

    def getOutputFieldShape(self) -> list[int]:
        sizes = zip(
            self.inputFieldShape, self.kernelShape, self.stride or self.kernelShape, self.padding(), strict=True
        )
        return [(size + 2 * padding - kernel) // stride + 1 for size, kernel, stride, padding in sizes]


def _forward(given: torch.Tensor, params: PoolParams) -> torch.Tensor:
    kernel, stride, padding = (
        list(params.kernelShape),
        list(params.stride) or list(params.kernelShape),
        params.padding(),
    )
    if params.poolingType is PoolingType.MAX:
        return functional.max_pool2d(given, kernel, stride, padding)
    # An average counts what lies inside of the field alone; a sum is not divided.
    if params.poolingType is PoolingType.SUM:
        return functional.avg_pool2d(given, kernel, stride, padding, divisor_override=1)
    return functional.avg_pool2d(given, kernel, stride, padding, count_include_pad=False)


def pool(graph: Graph, params: PoolParams, tensor: Tensor, prog: Target, name: str = "", *rest: Any) -> Tensor:
    traced = lambda given: _forward(given, params)  # noqa: E731
    return call_library(graph, prog, "popnn::pool", traced, [tensor], types=[tensor.elementType()], name=name)[0]


def poolInputGradient(
    graph: Graph,
    params: PoolParams,
    tensor: Tensor,
    pooled: Tensor,
    gradient: Tensor,
    *rest: Any,
    name: str = "",
) -> Tensor:
    """The gradient of the input: `(graph, params, in, pooled, gradient, [useScaledGradient,] prog)`.

    Of a max pool, every maximum of a window gets its gradient; with `useScaledGradient` they share it.
    """
    prog = next(value for value in rest if not isinstance(value, (bool, str)))
    scaled = bool(rest and rest[0] is True)
    kernel, stride, padding = (
        list(params.kernelShape),
        list(params.stride) or list(params.kernelShape),
        params.padding(),
    )

    function = "popnn::poolInputGradient"
    if params.poolingType is PoolingType.MAX:
        _check_shapes(params, tensor, pooled, gradient)
        made = graph.clone(tensor.elementType(), tensor, f"{name or function}/out")
        arguments = [gradient, tensor, kernel, stride, padding, [1, 1], False, pooled, scaled]
        priced = "aten.max_pool2d_with_indices_backward.default"
        return call_kernel(graph, prog, function, MAX_POOL_GRADIENT, priced, arguments, made, name=name)

    def traced(given: torch.Tensor, made: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        divisor = 1 if params.poolingType is PoolingType.SUM else None
        found: torch.Tensor = torch.ops.aten.avg_pool2d_backward(
            grad, given, kernel, stride, padding, False, False, divisor
        )
        return found

    types = [tensor.elementType()]
    operands = [tensor, pooled, gradient]
    return call_library(graph, prog, function, traced, operands, types=types, name=name)[0]


def _check_shapes(params: PoolParams, tensor: Tensor, pooled: Tensor, gradient: Tensor) -> None:
    shape = tensor.shape()
    if len(shape) != 4 or shape[2:] != list(params.inputFieldShape):
        raise poplar_error(f"poolInputGradient: the input is {shape}, and the field {list(params.inputFieldShape)}.")
    for what, one in (("pooled", pooled), ("the gradient", gradient)):
        wanted = [*shape[:2], *params.getOutputFieldShape()]
        if one.shape() != wanted:
            raise poplar_error(f"poolInputGradient: {what} needs shape {wanted}, not {one.shape()}.")
