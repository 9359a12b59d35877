"""Non-linearities and their gradients.

In: activations; for gradients what the forward pass returned and the gradient of it. Out: tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import torch
import torch.nn.functional as functional

from poplar import Graph, Tensor
from poplar._errors import poplar_error
from poplar._library import Target, call_library

SOFTMAX_SCALE = 16384.0  # what SOFTMAX_SCALED multiplies with


class NonLinearityType(Enum):
    SIGMOID = "sigmoid"
    HARD_SIGMOID = "hard sigmoid"
    RELU = "relu"
    TANH = "tanh"
    GELU = "gelu"
    GELU_ERF = "gelu erf"
    SWISH = "swish"
    SOFTMAX = "softmax"
    SOFTMAX_STABLE = "softmax stable"
    SOFTMAX_SCALED = "softmax scaled"


def _hard_sigmoid(a: torch.Tensor) -> torch.Tensor:
    return torch.clamp(a * 0.2 + 0.5, 0.0, 1.0)


FORWARD: Mapping[NonLinearityType, Callable[[torch.Tensor], torch.Tensor]] = {
    NonLinearityType.SIGMOID: torch.sigmoid,
    NonLinearityType.HARD_SIGMOID: _hard_sigmoid,
    NonLinearityType.RELU: torch.relu,
    NonLinearityType.TANH: torch.tanh,
    NonLinearityType.GELU: lambda a: functional.gelu(a, approximate="tanh"),
    NonLinearityType.GELU_ERF: functional.gelu,
    NonLinearityType.SWISH: functional.silu,
    NonLinearityType.SOFTMAX: lambda a: torch.softmax(a, -1),
    NonLinearityType.SOFTMAX_STABLE: lambda a: torch.softmax(a, -1),
    NonLinearityType.SOFTMAX_SCALED: lambda a: torch.softmax(a, -1) * SOFTMAX_SCALE,
}


def _softmax_gradient(out: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._softmax_backward_data(grad, out, -1, out.dtype)  # type: ignore[no-any-return]


# (what the forward pass returned, or its input where that is needed; the gradient of it) -> the gradient of the input
BACKWARD: Mapping[NonLinearityType, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    NonLinearityType.SIGMOID: lambda out, grad: torch.ops.aten.sigmoid_backward(grad, out),
    NonLinearityType.HARD_SIGMOID: lambda out, grad: grad * 0.2 * ((out > 0) & (out < 1)).to(grad.dtype),
    NonLinearityType.RELU: lambda out, grad: torch.ops.aten.threshold_backward(grad, out, 0),
    NonLinearityType.TANH: lambda out, grad: torch.ops.aten.tanh_backward(grad, out),
    NonLinearityType.GELU: lambda a, grad: torch.ops.aten.gelu_backward(grad, a, approximate="tanh"),
    NonLinearityType.GELU_ERF: lambda a, grad: torch.ops.aten.gelu_backward(grad, a),
    NonLinearityType.SWISH: lambda a, grad: torch.ops.aten.silu_backward(grad, a),
    NonLinearityType.SOFTMAX: _softmax_gradient,
    NonLinearityType.SOFTMAX_STABLE: _softmax_gradient,
}


def _choose(kind: Any) -> NonLinearityType:
    return kind if isinstance(kind, NonLinearityType) else NonLinearityType[str(kind)]


def nonLinearity(graph: Graph, kind: Any, tensor: Tensor, prog: Target, name: str = "", *rest: Any) -> Tensor:
    """A non-linearity of each element, or a softmax over the last dimension."""
    chosen = _choose(kind)
    return call_library(graph, prog, f"popnn::{chosen.name.lower()}", FORWARD[chosen], [tensor], name=name)[0]


def nonLinearityInPlace(graph: Graph, kind: Any, tensor: Tensor, prog: Target, name: str = "", *rest: Any) -> None:
    chosen = _choose(kind)
    call_library(
        graph, prog, f"popnn::{chosen.name.lower()}InPlace", FORWARD[chosen], [tensor], outputs=[tensor], name=name
    )


def nonLinearityInputGradient(
    graph: Graph, kind: Any, activations: Tensor, gradient: Tensor, prog: Target, name: str = "", *rest: Any
) -> Tensor:
    """From what the forward pass returned (for GELU and SWISH: what it read) and the gradient of its result."""
    chosen = _choose(kind)
    if chosen not in BACKWARD:
        raise poplar_error(f"nonLinearityInputGradient: there is no gradient of {chosen.name}. Use SOFTMAX.")
    function = f"popnn::{chosen.name.lower()}InputGradient"
    return call_library(graph, prog, function, BACKWARD[chosen], [activations, gradient], name=name)[0]


Named = Callable[..., Any]


def _name(kind: NonLinearityType) -> tuple[Named, Named]:
    def plain(graph: Graph, tensor: Tensor, prog: Target, name: str = "", *rest: Any) -> Tensor:
        return nonLinearity(graph, kind, tensor, prog, name)

    def in_place(graph: Graph, tensor: Tensor, prog: Target, name: str = "", *rest: Any) -> None:
        nonLinearityInPlace(graph, kind, tensor, prog, name)

    return plain, in_place


sigmoid, sigmoidInPlace = _name(NonLinearityType.SIGMOID)
relu, reluInPlace = _name(NonLinearityType.RELU)
tanh, tanhInPlace = _name(NonLinearityType.TANH)
gelu, geluInPlace = _name(NonLinearityType.GELU)
softmax, softmaxInPlace = _name(NonLinearityType.SOFTMAX)
softmaxStable, softmaxStableInPlace = _name(NonLinearityType.SOFTMAX_STABLE)
softmaxScaled, softmaxScaledInPlace = _name(NonLinearityType.SOFTMAX_SCALED)
