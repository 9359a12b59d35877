"""How a `GraphCall` gets into a recording.

In: a call, the tensors it takes, the shapes it returns. Out: tensors of the recording. While a graph is being recorded
and made functional, a call stands in it as the op `openipu::call` with a number; `resolve_calls` puts the call itself
in its place. So autograd, torch's functionalisation and the recorder treat it as any other op.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import fx

from openipu.capture.active import find_active
from openipu.capture.failures import locate
from openipu.errors import CaptureError, InternalError
from openipu.graph import GraphCall
from openipu.graph.library import define_operator

Tensors = Sequence[torch.Tensor]
# (inputs, gradients of the outputs) -> gradients of the inputs, None where there is none
Differentiate = Callable[[Tensors, Tensors], Sequence[torch.Tensor | None]]


@dataclass(frozen=True, eq=False)
class _PendingCall:
    """A call whose capture is not over."""

    number: int
    call: GraphCall
    results: tuple[tuple[tuple[int, ...], torch.dtype], ...]


_numbers = itertools.count()
_pending: WeakValueDictionary[int, _PendingCall] = WeakValueDictionary()  # the capture keeps them alive


def _make_results(inputs: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    return [torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in _pending[number].results]


define_operator("call(Tensor[] inputs, int number) -> Tensor[]", meta=_make_results)


class _Differentiable(torch.autograd.Function):
    """`openipu::call` with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, number: int, differentiate: Differentiate, *inputs: torch.Tensor) -> Any:
        ctx.save_for_backward(*inputs)
        ctx.differentiate = differentiate
        return tuple(torch.ops.openipu.call(list(inputs), number))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return (None, None, *ctx.differentiate(ctx.saved_tensors, gradients))


def call_in_graph(
    call: GraphCall, inputs: Tensors, results: Tensors, differentiate: Differentiate | None = None
) -> list[torch.Tensor]:
    """Record a call whose results have the shapes and dtypes of `results`. Only while capturing."""
    capture = find_active()
    if capture is None:
        raise InternalError(f"{call.name} was recorded without a capture. Please report it.")
    shapes = tuple((tuple(result.shape), result.dtype) for result in results)
    pending = _PendingCall(next(_numbers), call, shapes)
    _pending[pending.number] = pending
    capture.calls.append(pending)
    if differentiate is not None:
        return list(_Differentiable.apply(pending.number, differentiate, *inputs))  # type: ignore[no-untyped-call]
    with torch.no_grad():
        found: list[torch.Tensor] = torch.ops.openipu.call(list(inputs), pending.number)
    return found


def refuse_lost_gradient(what: str, inputs: Tensors) -> None:
    """A call without a backward of its own, in a training graph: what is trained through it would silently not be."""
    if loses_gradient(inputs):
        raise CaptureError(
            locate(
                f"{what} has no gradient, and reads tensors that are trained: they would be left out of training. "
                "Write it as plain Python in forward, or put it under torch.no_grad() if it is not to be trained."
            )
        )


def loses_gradient(inputs: Tensors) -> bool:
    """Is something trained through these inputs, so that a call has to say its gradient?"""
    capture = find_active()
    if capture is None or not capture.training or not torch.is_grad_enabled():
        return False
    return any(tensor.requires_grad for tensor in inputs)


def resolve_calls(graph: fx.Graph) -> None:
    """Put the calls themselves in the place of their numbers."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.openipu.call.default):
        inputs, number = node.args
        with graph.inserting_before(node):
            resolved = graph.call_function(_pending[number].call, tuple(inputs))
        resolved.meta = dict(node.meta)
        node.replace_all_uses_with(resolved)
        graph.erase_node(node)
